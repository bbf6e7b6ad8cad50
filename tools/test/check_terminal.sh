#!/usr/bin/env bash
# What a terminal is shown: lists by filter, narrow and wide, both sides of a token; names from files give no orders to it.
set -u
tmp=$ASSAY_TEST_TMP
export ASSAY_STORE=$tmp/store.db
failed=0
fail() { echo "$*"; failed=1; }
esc=$(printf '\033')
odd="$tmp/${esc}[31mred.strict.jsonl.zst"
cp goldens/tiny-dense-nvfp4.strict.graph.jsonl.zst "$odd"
"$ASSAY" run --engine "replay:$odd" --model tiny-dense-nvfp4 --battery strict >"$tmp/run" 2>&1 || fail 'the run failed'
"$ASSAY" run --engine replay:goldens/tiny-dense-nvfp4.strict.reduce16.jsonl.zst --model tiny-dense-nvfp4 \
    --battery strict >/dev/null 2>&1
"$ASSAY" list >"$tmp/list"
"$ASSAY" show 1 >"$tmp/show"
"$ASSAY" explain 1 p07 >"$tmp/explain"
"$ASSAY" diff 1 2 >"$tmp/diff"
"$ASSAY" explain 1 "p${esc}[31m:3" >"$tmp/error" 2>&1
for f in run list show explain diff error; do
    [ -s "$tmp/$f" ] || fail "$f is empty"
    ! grep -qF "$esc" "$tmp/$f" || fail "$f: an escape sequence came through"
    grep -qF '\x1b[31m' "$tmp/$f" || fail "$f: the odd name is not shown"
done
grep -qE '692 +12\.0625 .*" all"' "$tmp/explain" || fail 'explain lacks the other side'
grep -qE 'p29 .*first at 1: 504 " M" -> 77 "m"' "$tmp/diff" || fail 'diff lacks the text of a token'

count() { # N FILTER...: so many runs are listed
    local want=$1 n
    shift
    n=$("$ASSAY" list --json "$@" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')
    [ "$n" = "$want" ] || fail "list $*: $n runs, wanted $want"
}
count 2
count 1 --verdict FAIL
count 0 --verdict PASS
count 2 --model tiny-dense-nvfp4
count 0 --model other
count 2 --battery strict
count 0 --battery smoke
count 2 --since 2000-01-01
count 0 --since 2999-01-01
count 1 --limit 1

# In a terminal of its own: no line is wider than it.
python3 - "$ASSAY" <<'PY' || failed=1
import fcntl, os, pty, re, struct, subprocess, sys, termios
bad = 0
for columns, verb in ((60, ["list"]), (60, ["explain", "2", "p29:1"]), (160, ["list"])):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    p = subprocess.Popen([sys.argv[1]] + verb, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
    p.wait()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).replace("\r", "").split("\n")
    table = [l for l in lines if l.startswith((" ", "\t"))]
    widest = max(map(len, table))
    if p.returncode or len(table) < 3 or (columns == 60 and widest > 60) or (columns == 160 and len(table) != 3):
        print("%s at %d columns: status %d, %d lines, widest %d" % (verb, columns, p.returncode, len(table), widest))
        bad = 1
sys.exit(bad)
PY
exit $failed
