// Making elements, and work that is asked for more often than it is worth doing.
// Text only ever becomes text: nothing here or elsewhere on the page writes HTML.

/** An element. Names that start with "on" are listeners, other values attributes; null is left out. */
export function el(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "path", "line", "rect"].includes(tag);
  const made = isSvg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const shownIn = new WeakMap();

/**
 * Put new content in a place, unless it says what is there already: then nothing moves under a
 * reader's hand. Whatever had the focus, or was opened, stays so if its key is still there.
 */
export function put(place, ...children) {
  const fresh = el("div", {}, ...children);
  if (fresh.innerHTML === shownIn.get(place)) return;
  const focused = place.contains(document.activeElement)
    ? document.activeElement.closest("[data-key]")?.dataset.key
    : undefined;
  const opened = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  shownIn.set(place, fresh.innerHTML);
  place.replaceChildren(...fresh.childNodes);
  for (const one of place.querySelectorAll("details")) one.open = opened.has(one.dataset.key);
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

export const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

/** Runs `work` at once; asked again meanwhile, once more after it and a rest, however often. */
export function coalesced(work, restMs) {
  let isRunning = false;
  let isWanted = false;
  return async function ask() {
    isWanted = true;
    if (isRunning) return;
    isRunning = true;
    try {
      while (isWanted) {
        isWanted = false;
        await work();
        await pause(restMs);
      }
    } finally {
      isRunning = false;
    }
  };
}

/** How long ago, in words. */
export function ago(instant, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(instant)) / 1000));
  if (seconds < 5) return "just now";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return `${seconds} s ago`;
}

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
