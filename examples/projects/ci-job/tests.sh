# SPDX-License-Identifier: Apache-2.0
# Stands for the project's own tests.
test $((6 * 7)) -eq 42
test "$(printf 'a\nb\n' | wc -l)" -eq 2
echo "2 passed"
