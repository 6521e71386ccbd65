# SPDX-License-Identifier: Apache-2.0
echo "something is wrong" >&2
exit 3
