"""Visual faults of a page that a person sees at once, measured in the browser with any fonts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

_MEASURE = r"""
() => {
  const faults = [];
  const article = document.querySelector("article");
  const name = (e) => `${e.tagName.toLowerCase()} "${(e.innerText || e.alt || "").trim().slice(0, 30)}"`;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const once = (compute, known = new Map()) => (e) => {
    if (!known.has(e)) known.set(e, compute(e));
    return known.get(e);
  };
  const scrolls = once(
    (e) => e && e !== article && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement)),
  );
  const numbers = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const mixed = ([r, g, b, a = 1], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  const behind = once((e) =>
    e ? mixed(numbers(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255],
  );
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);

  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the screen");
  for (const e of article.querySelectorAll("*"))
    if (shown(e) && !scrolls(e.parentElement) && e.getBoundingClientRect().right > innerWidth + 1)
      faults.push(`${name(e)} runs out of the screen`);
  for (const e of article.querySelectorAll(".doc-contents .md-typeset__table > table"))
    if (e.getBoundingClientRect().right > innerWidth + 1) faults.push(`${name(e)}: parameters out of sight`);

  for (const e of article.querySelectorAll("img"))
    if (!e.complete || !e.naturalWidth) faults.push(`${name(e)} is not loaded`);

  const words = new Set();  // what is written in one element is looked at once
  const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    const e = text.parentElement;
    if (!text.data.trim() || words.has(e) || !shown(e) || e.closest(".headerlink, button, nav")) continue;
    words.add(e);
    const style = getComputedStyle(e);
    if (parseFloat(style.fontSize) < 11) faults.push(`${name(e)} is small: ${style.fontSize}`);
    const under = behind(e);
    const found = contrast(mixed(numbers(style.color), under), under);
    if (found < 3) faults.push(`${name(e)} is faint: ${found.toFixed(1)}`);
  }

  const coloured = ".language-python:not(.doc-signature) code, .language-pycon code";
  for (const code of article.querySelectorAll(coloured))
    if (new Set([...code.querySelectorAll("span")].map((e) => getComputedStyle(e).color)).size < 3)
      faults.push(`${name(code)} has no colours`);

  const inFlow = (e) => {
    const { display, position, float } = getComputedStyle(e);
    const inPlace = /^(static|relative)$/.test(position) && float === "none";
    return inPlace && /^(block|grid|flex|table)$/.test(display);
  };
  for (const parent of [article, ...article.querySelectorAll("div, li, td")]) {
    const boxes = [...parent.children].filter((e) => shown(e) && inFlow(e));
    for (let i = 1; i < boxes.length; i++) {
      const [a, b] = [boxes[i - 1].getBoundingClientRect(), boxes[i].getBoundingClientRect()];
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (high > 1 && wide > 1) faults.push(`${name(boxes[i])} lies over ${name(boxes[i - 1])}`);
    }
  }
  return [...new Set(faults)];
}
"""


async def faults_of(page: Page) -> list[str]:
    """Elements that are cut off, tiny, faint, missing, without colours, or over other ones."""
    return await page.evaluate(_MEASURE)
