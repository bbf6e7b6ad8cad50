"""Opens report pages in headless Chromium through its debugging pipe; no package besides Python is needed.

usage: browser.py CHROMIUM PAGE... [--shot FOLDER]
For each page, the first three light and dark: no console message, no exception, no request but the page's own; a token is reached by
keyboard alone and shows both lists; Escape closes. Prints what is wrong and exits 1.
"""

import base64
import json
import os
import subprocess
import sys
import time


HEIGHT = 1500


class Browser:
    def __init__(self, program):
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def place():  # the browser reads descriptor 3 and writes descriptor 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-extensions", "--disable-dev-shm-usage", "--disable-background-networking",
             "--hide-scrollbars", "--user-data-dir=" + os.environ["ASSAY_TEST_TMP"] + "/chromium"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None

    def receive(self):
        while b"\0" not in self.buffer:
            data = os.read(self.inp, 1 << 16)
            if not data:
                raise SystemExit("the browser went away")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def open(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def go(self, page):
        self.events = []
        self.call("Page.navigate", url="file://" + os.path.abspath(page))
        end = time.time() + 30
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            if time.time() > end:
                raise SystemExit("%s: did not load" % page)
            self.events.append(self.receive())

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit("%s: %s" % (expression, answer["exceptionDetails"]))
        return answer["result"].get("value")

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(20)


def complaints(events):
    for e in events:
        p = e.get("params", {})
        if e.get("method") == "Runtime.exceptionThrown":
            yield "exception: %s" % p["exceptionDetails"].get("text")
        if e.get("method") == "Runtime.consoleAPICalled":
            yield "console: %s" % p
        if e.get("method") == "Log.entryAdded":
            yield "log: %s" % p["entry"].get("text")
        if e.get("method") == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:")):
            yield "request to %s" % p["request"]["url"]


def check_without_script(b, page):
    b.call("Emulation.setScriptExecutionDisabled", value=True)
    b.go(page)
    wrong = []
    if b.value("document.querySelector('.strip').getBoundingClientRect().height") < 5:
        wrong.append("%s: without JavaScript no token is seen" % page)
    if not b.value("document.querySelector('.tools').hidden && document.getElementById('panel').hidden"):
        wrong.append("%s: without JavaScript dead controls are seen" % page)
    b.call("Emulation.setScriptExecutionDisabled", value=False)
    return wrong


def check(b, page, dark, folder):
    name = "%s-%s" % (os.path.splitext(os.path.basename(page))[0], "dark" if dark else "light")
    b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    b.call("Emulation.setDeviceMetricsOverride", width=1100, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    start = time.time()
    b.go(page)
    loaded = time.time() - start
    wrong = ["takes %.1f s to open" % loaded] if loaded > 10 else []
    if b.value("document.querySelectorAll('.strip > span').length") < 1:
        wrong.append("no token is shown")
    if not b.value("document.querySelector('.banner strong').textContent.trim().length > 3"):
        wrong.append("no verdict in the banner")
    for width in (1100, 390):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        if b.value("document.documentElement.scrollWidth > innerWidth"):
            wrong.append("wider than a window of %d" % width)
        if folder and width == 390:
            b.shot(os.path.join(folder, name + "-narrow.png"))
    b.call("Emulation.setDeviceMetricsOverride", width=1100, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    if folder:
        b.shot(os.path.join(folder, name + ".png"))
    for _ in range(400):  # by keyboard alone
        if b.value("!!document.activeElement.closest('.strip')"):
            break
        b.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        b.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    else:
        wrong.append("no strip is reached by Tab")
    if not b.value("document.activeElement.matches(':focus-visible')"):
        wrong.append("the focus cannot be seen")
    b.key("ArrowRight")
    if b.value("document.getElementById('panel').hidden"):
        wrong.append("the arrow key shows no token")
    start = time.time()
    for _ in range(20):
        b.key("ArrowRight")
    b.value("document.body.offsetHeight")
    if time.time() - start > 4:
        wrong.append("20 arrow keys take %.1f s" % (time.time() - start))
    if b.value("document.querySelector('.current') !== document.querySelector('.strip').children[Math.min(20, document.querySelector('.strip').children.length - 1)]"):
        wrong.append("the arrow keys do not step from token to token")
    b.key("n")
    different = b.value("document.querySelectorAll('.strip .root, .strip .forced').length")
    if different and not b.value("document.querySelector('.strip .current').matches('.root,.tie,.near,.nearer,.far,.odd,.forced')"):
        wrong.append("'n' does not reach the next difference")
    if b.value("document.querySelectorAll('#panel dt').length") < 9:
        wrong.append("the panel does not show how the razor decided")
    if b.value("document.querySelectorAll('#panel .tops > div').length") != 2:
        wrong.append("the panel does not show both lists")
    if folder:
        b.shot(os.path.join(folder, name + "-token.png"))
    b.value("document.querySelector('.tools input').click()")
    shown = b.value("[].filter.call(document.querySelectorAll('section:first-of-type .prompt'), e => !e.hidden).length")
    want = b.value("document.querySelectorAll('section:first-of-type .prompt:not(.same)').length")
    if shown != want:
        wrong.append("'only prompts that differ' shows %d prompts, not %d" % (shown, want))
    b.key("Escape")
    if not b.value("document.getElementById('panel').hidden"):
        wrong.append("Escape does not close the panel")
    if b.value("window.injected || document.title.indexOf('injected') == 0 || document.querySelectorAll('img,iframe,object').length"):
        wrong.append("a text of the run was taken for markup")
    return ["%s: %s" % (name, w) for w in wrong + list(complaints(b.events))]


# The lowest contrast of any text with what is painted behind it; text of a drawing lies on its .b-back.
CONTRAST = """(() => {
  const parts = c => (c.match(/[0-9.]+/g) || []).map(Number);
  const light = c => { const l = parts(c).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  let worst = [99, ''];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || !e.getClientRects().length || e.closest('title,style')) continue;
    const drawn = e.ownerSVGElement, style = getComputedStyle(e);
    let back = drawn ? getComputedStyle(drawn.querySelector('.b-back')).fill : '';
    for (let a = e; a && !back; a = a.parentElement) {
      const c = getComputedStyle(a).backgroundColor;
      if (parts(c)[3] !== 0 && c != 'transparent') back = c;
    }
    const pair = [light(drawn ? style.fill : style.color), light(back)].sort((x, y) => x - y);
    const contrast = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (!(contrast >= worst[0])) worst = [contrast, e.tagName + ' ' + e.textContent.slice(0, 30)];
  }
  return worst;
})()"""


def check_plain(b, page, dark, folder):
    """A page without tokens: a bisection, a decision about a default."""
    name = "%s-%s" % (os.path.splitext(os.path.basename(page))[0], "dark" if dark else "light")
    b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    wrong = []
    b.go(page)
    for width in (390, 1000):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        if b.value("document.documentElement.scrollWidth > innerWidth"):
            wrong.append("wider than a window of %d" % width)
    if folder:
        b.shot(os.path.join(folder, name + ".png"))
    if not b.value("document.querySelector('.banner strong').textContent.trim().length > 3"):
        wrong.append("no verdict in the banner")
    contrast, where = b.value(CONTRAST)
    if not contrast >= 4.5:
        wrong.append("a contrast of %s at %s" % (contrast, where))
    b.value("document.querySelectorAll('.banner p').forEach(e => e.style.color = 'rgb(128,128,128)')")
    if b.value(CONTRAST)[0] >= 4.5:
        wrong.append("grey on a coloured banner passes for legible")
    if b.value("window.injected || document.querySelectorAll('script,img,iframe,object').length"):
        wrong.append("a text was taken for markup")
    return ["%s: %s" % (name, w) for w in wrong + list(complaints(b.events))]


def main():
    words = sys.argv[1:]
    folder = words.pop(words.index("--shot") + 1) if "--shot" in words else None
    program, *pages = [w for w in words if w != "--shot"]
    b, wrong = Browser(program), []
    b.open()
    for page in pages:
        plain = os.path.basename(page).startswith(("bisect", "flip"))
        for dark in (False, True) if plain or page in pages[:3] else (False,):
            wrong += (check_plain if plain else check)(b, page, dark, folder)
    wrong += check_without_script(b, pages[0])
    b.close()
    print("\n".join(wrong) or "%d pages opened: nothing to complain about" % len(pages))
    sys.exit(1 if wrong else 0)


main()
