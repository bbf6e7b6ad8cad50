#!/usr/bin/env bash
# Every pair of text and background of the page reaches WCAG AA (4.5 to 1), marks and borders of focus 3 to 1.
set -u
python3 - <<'END'
import re, sys

css = open("reports/page/page.css").read()
light, dark = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in css.split("@media (prefers-color-scheme: dark)")[:2]]
dark = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css.split("@media (prefers-color-scheme: dark)")[1].split("* {")[0]))
text = """ink/page ink/card soft/page soft/card link/page link/card pass/pass-back razor/razor-back fail/fail-back none/none-back
ink/pass-back ink/razor-back ink/fail-back ink/none-back fail/card pass/card far/card tie/tie-back near/near-back
near/nearer-back far/far-back odd/odd-back cascade/cascade-back cascade/page ink/line near/card pass/page far/page
bar-ink/card""".split()
marks = "focus/page focus/card tie/page tie/card odd/page odd/card near/card near/near-back fail/near-back cascade/card".split()


def light_of(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


bad = 0
for name, theme in (("light", light), ("dark", dark)):
    for pairs, least in ((text, 4.5), (marks, 3)):
        for pair in pairs:
            a, b = sorted(light_of(theme[k]) for k in pair.split("/"))
            if (b + 0.05) / (a + 0.05) < least:
                print("%s: %s has a contrast of %.2f, %.1f is needed" % (name, pair, (b + 0.05) / (a + 0.05), least))
                bad = 1
if set(light) != set(dark):
    print("light and dark do not name the same colours: %s" % (set(light) ^ set(dark)))
    bad = 1
sys.exit(bad)
END
