# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools protocol with nothing but the standard library."""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time


def find():
    for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Socket:
    """A WebSocket client (RFC 6455): text frames, no extensions."""

    def __init__(self, url):
        host, port, path = re.match(r"ws://([^:/]+):(\d+)(/.*)", url).groups()
        self.s = socket.create_connection((host, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.s.recv(4096)
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        if b" 101 " not in head:
            raise OSError(head.decode())

    def read(self, n):
        while len(self.rest) < n:
            more = self.s.recv(1 << 16)
            if not more:
                raise OSError("the browser is gone")
            self.rest += more
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else struct.pack("!BH", 0xFE, n) if n < 65536 else struct.pack("!BQ", 0xFF, n)
        self.s.sendall(b"\x81" + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        text = b""
        while True:
            first, second = self.read(2)
            n = second & 0x7F
            n = struct.unpack("!H", self.read(2))[0] if n == 126 else struct.unpack("!Q", self.read(8))[0] if n == 127 else n
            data = self.read(n)
            if first & 15 in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()


class Browser:
    def __init__(self, width=1500, height=900):
        self.profile = tempfile.mkdtemp(prefix="mainstem-browser-")
        args = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run",
                "--remote-debugging-port=0", f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"]
        self.log = open(os.path.join(self.profile, "log"), "wb+")
        self.process = subprocess.Popen(args, stdout=self.log, stderr=self.log)
        port = os.path.join(self.profile, "DevToolsActivePort")
        for _ in range(600):
            if os.path.exists(port) and len(open(port).read().split()) == 2:
                break
            if self.process.poll() is not None:
                self.log.seek(0)
                raise OSError("the browser did not start: " + self.log.read().decode(errors="replace")[-500:])
            time.sleep(0.1)
        number, path = open(port).read().split()
        self.socket = Socket(f"ws://127.0.0.1:{number}{path}")
        self.next, self.session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        self.next += 1
        message = {"id": self.next, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            m = json.loads(self.socket.receive())
            if m.get("id") == self.next:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            if "method" in m:
                self.events.append(m)

    def open(self, path, theme="light"):
        """Loads a file and returns milliseconds from navigation to the end of loading."""
        self.events = []
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        for _ in range(300):
            if self.js("document.readyState === 'complete' && location.protocol === 'file:'"):
                break
            time.sleep(0.05)
        self.settle()
        return self.js("performance.getEntriesByType('navigation')[0].loadEventEnd")

    def settle(self):
        self.js("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r, 30))))")

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(expression + ": " + json.dumps(r["exceptionDetails"])[:600])
        return r["result"].get("value")

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def mouse(self, x, y, kind="mouseMoved"):
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
        self.settle()

    def complaints(self):
        """Console messages, exceptions, log entries; and requests for anything but the page itself."""
        self.js("1")
        bad = []
        for e in self.events:
            p = e["params"]
            if e["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                bad.append(json.dumps(p)[:400])
            if e["method"] == "Network.requestWillBeSent" and p["type"] != "Document" and not p["request"]["url"].startswith("data:"):
                bad.append("request: " + p["request"]["url"])
        return bad

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except OSError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)
