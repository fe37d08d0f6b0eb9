"""Headless Chromium: pages, screenshots, and pictures for pages."""

import pathlib
import struct
import subprocess
import tempfile
import zlib

OUT = pathlib.Path(tempfile.gettempdir()) / "forebay-e2e-page"

CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--hide-scrollbars", "--virtual-time-budget=8000",
            "--force-device-scale-factor=1", "--window-size=1000,700"]


def png(width, height, colours=((20, 110, 130), (240, 200, 90)), comment_bytes=0):
    """Returns a PNG picture of stripes in two colours. A comment of any length makes it longer."""
    row = lambda y: b"\0" + bytes(colours[0] if y // 20 % 2 else colours[1]) * width
    chunk = lambda kind, data: (struct.pack(">I", len(data)) + kind + data
                                + struct.pack(">I", zlib.crc32(kind + data)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(map(row, range(height))))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows)
            + chunk(b"tEXt", b"Comment\0" + b"x" * comment_bytes) + chunk(b"IEND", b""))


def browse(url, *args):
    """Opens a URL in a browser with an empty profile; returns the browser's output."""
    with tempfile.TemporaryDirectory(prefix="forebay-e2e-chromium-") as profile:
        done = subprocess.run([*CHROMIUM, f"--user-data-dir={profile}", *args, url],
                              capture_output=True, text=True, timeout=90, check=False)
    return done.stdout


def screenshot(checks, url, name, *args):
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.png"
    path.unlink(missing_ok=True)
    browse(url, f"--screenshot={path}", *args)
    checks.that(path.exists() and path.stat().st_size > 5000, f"screenshot to look at: {path}",
                "there is no file of more than 5,000 bytes")
