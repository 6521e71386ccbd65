# SPDX-License-Identifier: Apache-2.0
# Stands for a linter with a plugin that would rather not be read-only.
files=$(grep -l TODO app.sh)
echo "$(echo "$files" | wc -w) finding: TODO in $files"
if echo evil 2>/dev/null >> app.sh; then echo "the project was changed"; else echo "the project is as it was"; fi
