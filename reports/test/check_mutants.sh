#!/usr/bin/env bash
# Escapes are taken out one by one; the check of hostile texts must fail each time, and pass with all of them in.
set -u
build=${ASSAY%/assay}
tmp=$ASSAY_TEST_TMP
objects="$build/reports/test/check_forms.o $(ls "$build"/*/test/help_*.o)"
flags="-std=c11 -D_GNU_SOURCE -O0 -w -I. -I$build $(pkg-config --cflags jansson check)"
nm "$build/reports/escape.o" | grep -q __asan && flags="$flags -fsanitize=address,undefined"
libs="$(pkg-config --libs sqlite3 libzstd jansson libcurl libpcre2-8 libcrypto check) -lm -pthread"
failed=0
mutant() { # NAME FILE TEXT 's/what/by what/': FILE is changed, the check runs on hostile text number TEXT
    cp "$2" "$tmp/mutant.c"
    sed -i "$4" "$tmp/mutant.c"
    if [ "$1" != control ] && cmp -s "$2" "$tmp/mutant.c"; then
        echo "mutant $1: $2 has no such place"
        failed=1
        return
    fi
    # shellcheck disable=SC2086
    gcc $flags -o "$tmp/check" "$tmp/mutant.c" $objects "$build/libassay.a" $libs || { failed=1; return; }
    CK_RUN_CASE=hostile ASSAY_TEST_HOSTILE=$3 "$tmp/check" >"$tmp/out" 2>&1
    rc=$?
    if [ "$1" = control ]; then
        [ $rc = 0 ] || { echo 'the control fails'; tail -n 4 "$tmp/out"; failed=1; }
    elif [ $rc = 0 ]; then
        echo "mutant $1 survived"
        failed=1
    fi
}
escape=reports/escape.c
mutant control $escape 0 ''
mutant csv_formula $escape 9 's/if (text && is_formula(text))/if (0)/'
mutant csv_full_width $escape 10 's/i < sizeof sign \/ sizeof \*sign/i < 4/'
mutant csv_quote $escape 11 "s/fputs(\*unit == '\"' ? .* : unit, f);/fputs(unit, f);/"
mutant markdown_marks $escape 8 's/is_plain((unsigned char)\*unit) ? "%c"/1 ? "%c"/'
mutant html_less_than $escape 0 "s/case '<': fputs(\"&lt;\", f); break;//"
mutant script_json $escape 3 "s/if (\*s == '<' || .*/if (0)/"
mutant visible $escape 6 's/i += utf8_visible((const char \*)bytes + i, n - i, double_backslash, one);/one[0] = ((const char *)bytes)[i++], one[1] = 0;/'
mutant comment_room reports/form_markdown.c 0 's/(long)size <= room/1/'
[ $failed = 0 ] && echo 'eight mutants killed, the control lives'
exit $failed
