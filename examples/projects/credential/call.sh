# SPDX-License-Identifier: Apache-2.0
# What an agent would run: it knows the placeholder only.
case $API_KEY in *real*) seen=yes ;; *) seen=no ;; esac
echo "the key is in here: $seen"
for path in /v1/status /v2/status; do
	code=$(curl -s -o /dev/null -w '%{http_code}' -H "X-Api-Key: $API_KEY" "https://api.example.org$path")
	echo "GET $path: $code"
done
