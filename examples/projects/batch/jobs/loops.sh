# SPDX-License-Identifier: Apache-2.0
while :; do sleep 1; done
