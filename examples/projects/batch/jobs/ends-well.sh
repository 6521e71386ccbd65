# SPDX-License-Identifier: Apache-2.0
echo fine
