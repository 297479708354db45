// Returns the faults in the look of the open page, as a list of [kind, sentence].
// Run by browser_test.py as the body of a function; reads, changes nothing.
const faults = [];
const fault = (kind, text) => faults.push([kind, text]);
const say = (text) => JSON.stringify(text.trim().slice(0, 40));
const slack = 1.0;  // pixels
const smallest = matchMedia('print').matches ? 9 : 10.5;  // pixels

// Colours.
const parse = (colour) => {
  const numbers = colour.match(/[\d.]+/g);
  return numbers === null ? null : numbers.map(Number);
};
const luminance = (colour) => {
  const linear = colour.slice(0, 3).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const htmlGround = (element) => {
  for (let at = element; at !== null; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
    if (colour[3] !== 0) fault('contrast', 'a half transparent ground: ' + at.className);
  }
  return [255, 255, 255];
};
// The fill of the last shape before `text` that lies below its middle.
const svgGround = (text, box) => {
  const x = (box.left + box.right) / 2;
  const y = (box.top + box.bottom) / 2;
  let ground = null;
  for (const shape of text.ownerSVGElement.querySelectorAll('rect')) {
    if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
    const place = shape.getBoundingClientRect();
    if (place.left <= x && x <= place.right && place.top <= y && y <= place.bottom) ground = shape;
  }
  if (ground === null) return htmlGround(text.ownerSVGElement);
  const fill = getComputedStyle(ground).fill;
  if (fill.startsWith('url')) {
    fault('contrast', 'text on a texture: ' + say(text.textContent));
    return htmlGround(text.ownerSVGElement);
  }
  return parse(fill);
};

// Every line of text that can be seen: {text, left, right, top, bottom}.
const lines = [];
const clip = (box, frame) => ({
  left: Math.max(box.left, frame.left), right: Math.min(box.right, frame.right),
  top: Math.max(box.top, frame.top), bottom: Math.min(box.bottom, frame.bottom),
});
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
  const parent = node.parentElement;
  if (node.data.trim() === '' || parent.closest('title, style, script, defs') !== null) continue;
  if (parent.getClientRects().length === 0) continue;  // not displayed
  const style = getComputedStyle(parent);
  const inSvg = parent instanceof SVGElement;
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = inSvg ? [parent.getBoundingClientRect()] : [...range.getClientRects()];
  const scroll = parent.closest('.scroll');
  for (const box of boxes) {
    if (box.width < 0.5) continue;
    // The part of a table that is scrolled out of sight overlaps nothing.
    const seen = scroll === null ? box : clip(box, scroll.getBoundingClientRect());
    if (seen.right - seen.left < 0.5 || seen.bottom - seen.top < 0.5) continue;
    lines.push({text: node.data, left: seen.left, right: seen.right,
                top: seen.top, bottom: seen.bottom});
    if (inSvg) {
      const frame = parent.ownerSVGElement.getBoundingClientRect();
      if (box.left < frame.left - slack || box.right > frame.right + slack ||
          box.top < frame.top - slack || box.bottom > frame.bottom + slack) {
        fault('cut', 'sticks out of its chart: ' + say(node.data));
      }
    } else {
      let block = parent;
      while (getComputedStyle(block).display.startsWith('inline')) block = block.parentElement;
      const frame = block.getBoundingClientRect();
      if (box.left < frame.left - slack || box.right > frame.right + slack) {
        fault('cut', 'sticks out of its ' + block.tagName + ': ' + say(node.data));
      }
      if (scroll === null && (box.left < -slack || box.right > innerWidth + slack)) {
        fault('cut', 'sticks out of the page: ' + say(node.data));
      }
    }
  }
  const box = boxes[0];
  if (box === undefined) continue;
  const words = node.data.trim().split(/\s+/).length;
  if (boxes.length > words && node.data.length < 6 * boxes.length) {
    fault('broken', 'into ' + boxes.length + ' lines: ' + say(node.data));
  }
  const ink = parse(inSvg ? style.fill : style.color);
  const ratio = contrast(ink, inSvg ? svgGround(parent, box) : htmlGround(parent));
  if (ratio < 4.5) fault('contrast', ratio.toFixed(2) + ' for ' + say(node.data));
  if (parseFloat(style.fontSize) < smallest) fault('small', style.fontSize + ' for ' + say(node.data));
}

// Overlaps, from top to bottom.
lines.sort((a, b) => a.top - b.top);
for (let i = 0; i < lines.length; ++i) {
  for (let k = i + 1; k < lines.length && lines[k].top < lines[i].bottom - slack; ++k) {
    if (lines[k].left < lines[i].right - slack && lines[i].left < lines[k].right - slack) {
      fault('overlap', say(lines[i].text) + ' and ' + say(lines[k].text));
    }
  }
}

// Structure.
if (document.documentElement.scrollWidth > innerWidth) {
  fault('wide', document.documentElement.scrollWidth + ' pixels in ' + innerWidth);
}
// Paper does not scroll.
for (const table of matchMedia('print').matches ? document.querySelectorAll('.scroll') : []) {
  if (table.scrollWidth > table.clientWidth || table.scrollHeight > table.clientHeight) {
    fault('cut', 'a table is cut off: ' + table.getAttribute('aria-label'));
  }
}
if (document.scripts.length !== 0) fault('script', document.scripts.length + ' scripts');
for (const element of document.querySelectorAll('*')) {
  for (const attribute of element.attributes) {
    if (attribute.name.startsWith('on')) fault('script', attribute.name);
    const refers = attribute.name === 'src' || attribute.name === 'href';
    if (refers && !attribute.value.startsWith('data:')) fault('outside', attribute.value);
  }
}
if (document.querySelector('meta[http-equiv="Content-Security-Policy"]') === null) {
  fault('policy', 'no Content-Security-Policy');
}
if (document.title === '') fault('title', 'the page has none');
if (document.querySelectorAll('h1').length !== 1) fault('title', 'not one h1');
for (const section of document.querySelectorAll('section')) {
  if (section.querySelector('h2') === null) fault('title', 'a section has none');
}
for (const chart of document.querySelectorAll('.chart > svg')) {
  if (!chart.getAttribute('aria-label')) fault('title', 'a chart has none');
  if (chart.getBoundingClientRect().width < 150) fault('cut', 'a chart has no width');
  for (const bar of chart.querySelectorAll('rect:not(.plate), path:not(.edges)')) {
    if (bar.querySelector('title') === null) fault('title', 'a bar has none');
  }
}
const names = [...document.querySelectorAll('[id]')].map((element) => element.id);
if (new Set(names).size !== names.length) fault('title', 'an id occurs twice');
return {faults: faults, lines: lines.length,
        charts: document.querySelectorAll('.chart').length,
        dark: luminance(htmlGround(document.body)) < 0.2};
