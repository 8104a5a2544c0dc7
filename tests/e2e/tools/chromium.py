"""Chromium without a window, driven over a pipe by its DevTools protocol (JSON, ended by a zero byte): nothing beyond Python's
standard library and Debian's `chromium` is needed."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """`with Browser() as page:` one tab."""

    def __init__(self, width=1480, height=920, dark=False):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            raise AssertionError("chromium is not installed: apt-get install chromium (./dev test installs it)")
        self.profile = tempfile.mkdtemp(prefix="quern-chromium-")
        ours, theirs = os.pipe(), os.pipe()  # what we write and it reads on 3; what it writes on 4

        def wire():
            os.dup2(ours[0], 13), os.dup2(theirs[1], 14)
            os.dup2(13, 3), os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", f"--window-size={width},{height}",
             "about:blank"],
            preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0]), os.close(theirs[1])
        self.out, self.input, self.buffer, self.number, self.events = ours[1], theirs[0], b"", 0, []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.dark(dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out), os.close(self.input)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.input], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("chromium does not answer")
            part = os.read(self.input, 1 << 20)
            if not part:
                raise AssertionError("chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, timeout=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        deadline = time.monotonic() + timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    # ---- the page

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, fragment=""):
        """Loads a file; seconds until the page said it was ready."""
        start = time.monotonic()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + fragment)
        self.wait("document.documentElement && document.documentElement.dataset.ready")
        return time.monotonic() - start

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, condition, timeout=30):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if value := self.js(condition):
                return value
            time.sleep(0.03)
        raise AssertionError(f"never came true: {condition}")

    def where(self, selector):
        """The middle of an element, scrolled into view."""
        place = self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;
            e.scrollIntoView({{block: 'nearest', inline: 'nearest'}}); const b = e.getBoundingClientRect();
            return [b.x + Math.min(b.width, 600) / 2, b.y + Math.min(b.height, 20) / 2 + (b.height > 40 ? 2 : 0), b.width]; }})()""")
        if not place or not place[2]:
            raise AssertionError(f"nothing to click at {selector}")
        return place[:2]

    def click(self, selector, count=1):
        self.press(*self.where(selector), count)

    def press(self, x, y, count=1):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for i in range(count):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=i + 1)

    def drag(self, x, y, dx, dy):
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
        for step in (0.3, 0.6, 1):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + dx * step, y=y + dy * step, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + dx, y=y + dy, button="left", buttons=0, clickCount=1)

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def text(self, selector):
        return self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent") or ""

    def count(self, selector):
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Exceptions, errors of the console, and everything that the page asked the network for."""
        found = []
        for event in self.events:
            method, data = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(data["exceptionDetails"].get("exception", {}).get("description") or str(data["exceptionDetails"]))
            elif method == "Log.entryAdded" and data["entry"]["level"] == "error":
                found.append(data["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not data["request"]["url"].startswith(("file:", "about:", "data:")):
                found.append("asked for " + data["request"]["url"])
        return found
