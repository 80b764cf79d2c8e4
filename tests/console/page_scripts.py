"""Expressions that tests of the console evaluate in its page."""

#: Captions and rows of all tables.
ROWS = """
[...document.querySelectorAll("main table")].map(table => [
  table.caption.textContent,
  [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent.trim())),
])
"""
#: Texts whose contrast is too low for many eyes (WCAG 2.2: 4.5).
CONTRAST = """
(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = numbers(getComputedStyle(element).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("main *, header *")]
    .filter(element => [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim()))
    .filter(element => {
      const [one, other] = [numbers(getComputedStyle(element).color), behind(element)].map(light);
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) < 4.5;
    }).map(element => element.outerHTML);
})()
"""
