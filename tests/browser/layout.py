"""A check of a page's layout, for any width: no broken word, no collapsed chart, nothing beyond the screen."""

from __future__ import annotations

import json
from typing import Any

from tests.browser.devtools import Page

WIDTHS = (1440, 1200, 390, 1200, 1440)  # smaller, and larger again
CHART_PIXELS = 120
_CHECK = """(scope) => {
  const found = [], root = document.querySelector(scope);
  for (const plot of root.querySelectorAll('.js-plotly-plot')) {
    const area = plot.querySelector('.nsewdrag'), box = plot.getBoundingClientRect();
    if (!area || box.width === 0) continue;
    const height = area.getBoundingClientRect().height;
    if (height < PIXELS && !plot.id.endsWith('-events')) found.push(`chart ${plot.id} is ${height} px high`);
  }
  for (const svg of root.querySelectorAll('.multiples svg')) {
    const height = svg.getBoundingClientRect().height;
    if (height < PIXELS) found.push(`a small picture is ${height} px high`);
  }
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const holder = node.parentElement;
    if (!holder || holder.closest('svg, script, style, code, [hidden], .plot') || !holder.getClientRects().length) continue;
    for (const word of node.textContent.matchAll(/\\S+/g)) {
      if (word[0].length > 30 || /[-\\/.·…]/.test(word[0].slice(1, -1))) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((it) => it.width > 0).map((it) => Math.round(it.top)));
      if (lines.size > 1) found.push('"' + word[0] + '" is broken over ' + lines.size + ' lines');
    }
  }
  return found;
}""".replace("PIXELS", str(CHART_PIXELS))


def problems(page: Page, scope: str = "body") -> list[str]:
    """What is wrong with the layout below an element, in words."""
    found: Any = page.run(f"({_CHECK})({json.dumps(scope)})")
    return [str(it) for it in found]
