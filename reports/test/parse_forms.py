"""Reads every form of one report with real parsers. usage: parse_forms.py FOLDER [schema] (report.html, .md, .xml, .json, .csv)

Prints what is wrong and exits 1.
"""

import csv
import html.parser
import json
import sys
import unicodedata
import xml.etree.ElementTree as tree

folder = sys.argv[1] + "/report."
texts = {}
for ending in ("html", "md", "xml", "json", "csv"):
    with open(folder + ending, "rb") as f:
        texts[ending] = f.read().decode("utf-8", "strict")  # a lone surrogate or half a character ends here
    for c in texts[ending]:
        isolate = c in "\u2068\u2069" and ending in ("md", "xml")  # the form's own
        if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and not isolate:
            sys.exit("%s: U+%04X stands in it" % (ending, ord(c)))


class Page(html.parser.HTMLParser):
    allowed = set("""html head meta title style body h1 h2 h3 h4 nav main section div p strong b span bdi code dl dt dd small
        table thead tbody tr th td a details summary figure figcaption svg path rect text circle article script label input
        kbd pre footer aside button""".split())
    attributes = set("""lang charset http-equiv content name class role aria-hidden aria-label aria-live id href data-token
        title hidden type viewbox d x y width height text-anchor cx cy r scope colspan""".split())

    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.data = [], [], None

    def handle_starttag(self, tag, attrs):
        if tag not in self.allowed:
            sys.exit("html: a <%s> appeared" % tag)
        for name, value in attrs:
            if name not in self.attributes:
                sys.exit("html: <%s> has an attribute %s=%r" % (tag, name, value))
            if name == "href" and not value.startswith("#"):
                sys.exit("html: a link to %s" % value)
        if tag == "script":
            self.scripts.append([dict(attrs).get("type"), ""])
            self.data = self.scripts[-1]

    def handle_data(self, data):
        if self.data:
            self.data[1] += data

    def handle_endtag(self, tag):
        self.data = None


page = Page()
page.feed(texts["html"])
if [kind for kind, _ in page.scripts].count(None) != 1:
    sys.exit("html: more or less than its one script")
for kind, text in page.scripts:
    if kind == "application/json":
        json.loads(text)

report = json.loads(texts["json"])
if report["schema"] != "assay-report/1" or not report["runs"]:
    sys.exit("json: not assay-report/1")
if sys.argv[2:] == ["schema"]:
    import jsonschema  # python3-jsonschema of Debian

    with open("reports/schema/assay-report-1.json") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(report)
    wrong = json.loads(texts["json"])
    wrong["runs"][0]["verdict"] = "MAYBE"
    if jsonschema.Draft202012Validator(schema).is_valid(wrong):
        sys.exit("json: the schema would take anything")
prompts = sum(len(r["prompts"]) for r in report["runs"])
differences = [d for r in report["runs"] for p in r["prompts"] for d in p["differences"]]

suites = tree.fromstring(texts["xml"].encode())
for suite in suites:
    cases = suite.findall("testcase")
    for name, tag in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        found = len(cases) if tag is None else len([c for c in cases if c.find(tag) is not None])
        if found != int(suite.get(name)):
            sys.exit("xml: %s=%s, but %d found" % (name, suite.get(name), found))
    if any(c.get("name") == "injected" for c in cases):
        sys.exit("xml: a test case was injected")
if sum(len([c for c in s.findall("testcase") if c.get("name") != "the run"]) for s in suites) != prompts:
    sys.exit("xml: not one test case a prompt")

rows = list(csv.reader(texts["csv"].splitlines()))
if any(len(row) != len(rows[0]) for row in rows):
    sys.exit("csv: a row of another length")
named = {(r["prompt"], r["verdict"]) for r in (dict(zip(rows[0], row)) for row in rows[1:])}
for cell in (c for row in rows[1:] for c in row):
    cell = cell.lstrip(" ")
    if cell and cell[0] in "=+-@\uff1d\uff0b\uff0d\uff20" and not cell.lstrip("-").replace(".", "").replace("e", "").replace("-", "").isdigit():
        sys.exit("csv: a spreadsheet would compute %r" % cell)
if any(d["verdict"] not in {v for _, v in named} for d in differences):
    sys.exit("csv: a verdict of the JSON form is missing")

if len(texts["md"].encode()) > 65000:
    sys.exit("md: too long for a comment")
for line in texts["md"].split("\n"):
    if line.startswith("|") and line.count("|") not in (3, 4, 10):
        sys.exit("md: a table row was torn: %s" % line)
for sign in ("<script", "<img", "<svg", "](", "**bold", "@somebody", "#1 ", "www.x"):
    if sign in texts["md"]:
        sys.exit("md: %s came through" % sign)
if texts["md"].count("<details>") != texts["md"].count("</details>"):
    sys.exit("md: a fold is not closed")
print("%d prompts, %d differences: five forms parse" % (prompts, len(differences)))
