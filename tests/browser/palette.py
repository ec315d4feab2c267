"""Pictures that are small enough for a repository: PNG with a palette of 256 colours, which a screen of text and lines hardly has."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.browser.devtools import Page

# Chromium itself decodes its PNG: the pixels as RGBA, in base64.
_PIXELS = """(async () => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64,%s")).blob());
  const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
  return [image.width, image.height, btoa(text)];
})()"""


def keep(page: Page, path: Path) -> None:
    """A screenshot of the page as it is, small."""
    picture = page.call("Page.captureScreenshot", format="png")["data"]
    page.call("Page.navigate", url="about:blank")  # a page's own policy would not let it read its picture
    page.wait("document.readyState === 'complete'")
    width, height, pixels = page.run(_PIXELS % picture)
    rgba = np.frombuffer(base64.b64decode(pixels), dtype=np.uint8).reshape(height, width, 4)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(rgba[:, :, :3]))


def png(rgb: npt.NDArray[np.uint8]) -> bytes:
    """(height, width, 3) as a PNG with the 256 most frequent colours; the others become the nearest of them."""
    height, width, _ = rgb.shape
    colours, which, counts = np.unique(rgb.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts, kind="stable")[:256]].astype(np.int32)
    nearest = np.empty(len(colours), dtype=np.uint8)
    for at in range(0, len(colours), 2048):
        part = colours[at : at + 2048].astype(np.int32)
        nearest[at : at + 2048] = ((part[:, None, :] - palette[None]) ** 2).sum(axis=2).argmin(axis=1)
    rows = nearest[which.reshape(-1)].reshape(height, width)
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", head),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
