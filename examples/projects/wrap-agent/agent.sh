# SPDX-License-Identifier: Apache-2.0
# Notes of earlier sessions are in HOME, which is kept; the project is the current folder.
echo session >> ~/notes
echo done > work.txt
hook="no way to your git hooks"
if echo evil 2>/dev/null > .git/hooks/pre-commit; then hook="wrote a hook"; fi
echo "session $(wc -l < ~/notes): $hook"
