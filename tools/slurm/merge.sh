#!/usr/bin/env bash
# The job after the array of submit.sh: joins the shards' stores in FOLDER to the store of its -s (FOLDER/merged.db) and judges. The exit status
# is the verdict's; 4 when shards are missing.
set -u
folder=$1
mapfile -d '' -t command <"$folder/command"
shopt -s nullglob
shards=("$folder"/shard-*.db)
[ ${#shards[@]} -gt 0 ] || { echo "merge: NO_EVIDENCE: no shard has stored anything"; exit 4; }
into=$folder/merged.db
[ -f "$folder/into" ] && into=$(cat "$folder/into")
"${command[0]}" store merge "$into" "${shards[@]}"
status=$?
[ $status = 0 ] || exit $status
ASSAY_STORE=$into "${command[@]}" >"$folder/report.txt"
status=$?
cat "$folder/report.txt"
exit $status
