# SPDX-License-Identifier: Apache-2.0
# TODO: say more
echo hello
