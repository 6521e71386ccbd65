# SPDX-License-Identifier: Apache-2.0
"""Primes up to a number."""

import sys

limit = int(sys.argv[1])
print(*(n for n in range(2, limit + 1) if all(n % d for d in range(2, int(n ** 0.5) + 1))))
