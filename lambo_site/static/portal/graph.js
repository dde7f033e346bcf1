// The live graph: draws nodes and edges on a canvas, and lets people move in it by pointer, touch
// and keys. Knows no address and no panel: it is handed pictures and tells what was chosen.

const RADIUS_MAX = 26;
const LABELS_MAX = 60;
const LARGE = 1500;
const SCALES = [0.05, 8];
const GLOW_MS = 2500;
const STATUS_COLOURS = ["--none", "--candidate", "--venerable", "--canonical"];

export class GraphView {
  constructor(canvas, { choose, say }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.choose = choose;
    this.say = say;
    this.nodes = [];
    this.links = [];
    this.byWeight = [];
    this.indexById = new Map();
    this.linkKeys = new Set();
    this.marks = { attention: new Set(), reserved: new Set() };
    this.chosen = null;
    this.steps = [];
    this.stepOf = new Map();
    this.pointed = null;
    this.cursor = -1;
    this.version = 0;
    this.added = 0;
    this.transform = d3.zoomIdentity;
    this.fits = true;
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.worker = new Worker(new URL("layout-worker.js", import.meta.url));
    this.worker.onmessage = ({ data }) => this.#place(data);
    this.#listen();
    this.#readColours();
    this.#resize();
  }

  // -- what is shown ---------------------------------------------------------------------------

  /** Start anew with a whole picture; places of nodes that stay are kept. */
  load(picture) {
    const before = new Map(this.nodes.map((node) => [node.id, node]));
    this.nodes = [];
    this.links = [];
    this.indexById.clear();
    this.linkKeys.clear();
    this.edgeTypes = picture.edge_types;
    for (const row of picture.nodes) this.#putNode(row, before.get(row[0]));
    this.#putLinks(picture);
    if (!before.size) this.fits = true;
    if (!before.size && this.nodes.length > LARGE) this.#spread();
    this.#order();
    this.#layOut(before.size ? 0.3 : 1);
    this.#relight();
  }

  /** Take in what was written since; new nodes glow for a moment. */
  merge(picture) {
    const known = this.nodes.length;
    for (const row of picture.nodes) {
      const index = this.indexById.get(row[0]);
      if (index === undefined) this.#putNode(row, undefined, performance.now());
      else this.#readNode(this.nodes[index], row);
    }
    const links = this.links.length;
    this.#putLinks(picture);
    this.#order();
    const added = this.nodes.length - known + this.links.length - links;
    if (added) this.#placeNew(known);
    // Few among many change nothing that could be seen; to move all would cost every reader.
    this.added += added;
    if (this.added > (this.nodes.length > LARGE ? 0.05 * this.nodes.length : 0)) this.#layOut(0.3);
    this.#relight(); // what is new may rest on the chosen one
  }

  #putNode(row, before, bornAt = 0) {
    const node = { x: before?.x ?? NaN, y: before?.y ?? NaN, bornAt };
    this.#readNode(node, row);
    this.indexById.set(node.id, this.nodes.length);
    this.nodes.push(node);
  }

  #readNode(node, [id, label, type, status, dependents, agent, createdMs]) {
    Object.assign(node, { id, label, type, status, dependents, agent, createdMs });
    node.radius = Math.min(RADIUS_MAX, 3.5 + 2.4 * Math.sqrt(dependents));
  }

  #putLinks(picture) {
    const places = picture.nodes.map((row) => this.indexById.get(row[0]));
    for (let at = 0; at < picture.edges.length; at += 3) {
      const [from, to, type] = picture.edges.slice(at, at + 3);
      const link = { source: places[from], target: places[to], kind: picture.edge_types[type] };
      const key = `${link.source} ${link.target} ${type}`;
      if (this.linkKeys.has(key)) continue;
      this.linkKeys.add(key);
      this.links.push(link);
    }
  }

  #order() {
    this.byWeight = this.nodes.map((_, index) => index)
      .sort((one, other) => this.nodes[other].dependents - this.nodes[one].dependents || one - other);
  }

  /** Mark nodes that need attention and those that are reserved; sets of ids. */
  mark(attention, reserved) {
    this.marks = { attention, reserved };
    this.draw();
  }

  /** Choose a node and light up what rests on it: `steps` are lists of ids, nearest first. */
  light(id, steps) {
    this.chosen = id;
    this.steps = steps;
    this.#relight();
  }

  #relight() {
    this.stepOf = new Map();
    this.steps.forEach((ids, step) => ids.forEach((id) => this.stepOf.set(this.indexById.get(id), step)));
    this.stepOf.delete(undefined);
    this.draw();
  }

  /** Ids of lit nodes that are drawn, nearest step first. */
  get lit() {
    return [...this.stepOf].sort(([, one], [, other]) => one - other).map(([index]) => this.nodes[index].id);
  }

  /** Where a node is on the canvas, in CSS pixels; null if it is not drawn. */
  positionOf(id) {
    const node = this.nodes[this.indexById.get(id)];
    if (!node || Number.isNaN(node.x)) return null;
    const [x, y] = this.transform.apply([node.x, node.y]);
    return { x, y };
  }

  /** Bring a node to the middle, near enough to read, unless all can be seen at once. */
  show(id) {
    const node = this.nodes[this.indexById.get(id)];
    if (!node || Number.isNaN(node.x)) return;
    if (this.fits && this.nodes.length <= 150) return;
    const scale = Math.max(this.transform.k, this.nodes.length > 300 ? 1.4 : 0.9);
    this.fits = false;
    this.#moveTo(d3.zoomIdentity.translate(this.width / 2, this.height / 2).scale(scale).translate(-node.x, -node.y));
  }

  /** Nodes whose label holds a text, the weightiest first. */
  search(text, most) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const found = this.byWeight.filter((index) => this.nodes[index].label.toLowerCase().includes(wanted));
    return found.slice(0, most).map((index) => this.nodes[index]);
  }

  // -- places ----------------------------------------------------------------------------------

  /** Places to begin with, so that a large graph is seen before the worker has looked at it. */
  #spread() {
    this.nodes.forEach((node, index) => {
      const [away, angle] = [10 * Math.sqrt(0.5 + index), index * Math.PI * (3 - Math.sqrt(5))];
      [node.x, node.y] = [away * Math.cos(angle), away * Math.sin(angle)];
    });
    this.fit(true);
  }

  /** Put nodes that were just added beside one that they are joined to, else at the rim. */
  #placeNew(known) {
    const rim = d3.max(this.nodes, (node) => Math.hypot(node.x, node.y)) || 0;
    for (let index = known; index < this.nodes.length; index += 1) {
      const node = this.nodes[index];
      const link = this.links.findLast(({ source, target }) => source === index || target === index);
      const beside = link && this.nodes[link.source === index ? link.target : link.source];
      const angle = index * 2.4; // spreads neighbours around
      const [x, y, away] = beside && !Number.isNaN(beside.x) ? [beside.x, beside.y, 14 + beside.radius] : [0, 0, rim];
      [node.x, node.y] = [x + away * Math.cos(angle), y + away * Math.sin(angle)];
    }
  }

  #layOut(alpha) {
    this.version += 1;
    this.added = 0;
    const positions = new Float32Array(2 * this.nodes.length);
    this.nodes.forEach((node, index) => {
      positions[2 * index] = node.x;
      positions[2 * index + 1] = node.y;
    });
    const radii = Float32Array.from(this.nodes, (node) => node.radius);
    const links = Int32Array.from(this.links.flatMap(({ source, target }) => [source, target]));
    this.worker.postMessage({ kind: "load", version: this.version, positions, radii, links, alpha });
  }

  #place({ version, places, isSettled }) {
    if (version !== this.version) return;
    const count = places.length / 2; // nodes that came since have their places already
    this.isSettled = isSettled;
    if (this.isStill && !isSettled) return;
    this.nodes.slice(0, count).forEach((node, index) => {
      node.x = places[2 * index];
      node.y = places[2 * index + 1];
    });
    if (this.fits) this.fit(true);
    this.draw();
  }

  // -- moving ----------------------------------------------------------------------------------

  /** Show all of it. */
  fit(isFollowing = false) {
    const placed = this.nodes.filter((node) => !Number.isNaN(node.x));
    this.fits = true;
    if (!placed.length) return;
    const [left, right] = d3.extent(placed, (node) => node.x);
    const [top, bottom] = d3.extent(placed, (node) => node.y);
    const margin = this.width < 500 ? 36 : 60;
    const scale = Math.min(
      2.2, (this.width - 2 * margin) / (right - left || 1), (this.height - 1.4 * margin) / (bottom - top || 1));
    const goal = d3.zoomIdentity.translate(this.width / 2, this.height / 2)
      .scale(Math.max(SCALES[0], scale)).translate(-(left + right) / 2, -(top + bottom) / 2);
    if (isFollowing) this.#setTransform(goal);
    else this.#moveTo(goal);
  }

  zoomBy(factor) {
    this.fits = false;
    this.#gently().call(this.zoom.scaleBy, factor);
  }

  #moveTo(goal) {
    this.#gently().call(this.zoom.transform, goal);
  }

  #gently() {
    return this.isStill ? this.selection : this.selection.transition().duration(250);
  }

  #setTransform(goal) {
    this.selection.call(this.zoom.transform, goal);
  }

  #listen() {
    this.selection = d3.select(this.canvas);
    this.zoom = d3.zoom().scaleExtent(SCALES).on("zoom", ({ transform, sourceEvent }) => {
      if (sourceEvent) this.fits = false;
      this.transform = transform;
      this.draw();
    });
    const drag = d3.drag().container(this.canvas).clickDistance(4)
      .subject(({ x, y }) => {
        const index = this.#at(x, y);
        return index === null ? null : { index, x, y };
      })
      .on("drag", ({ subject, x, y }) => this.#drag(subject.index, x, y, false))
      .on("end", ({ subject, x, y }) => this.#drag(subject.index, x, y, true));
    this.selection.call(drag).call(this.zoom).on("dblclick.zoom", null);
    this.selection.on("click", (event) => {
      const index = this.#at(...d3.pointer(event));
      this.choose(index === null ? null : this.nodes[index].id);
    });
    this.selection.on("pointermove", (event) => this.#point(this.#at(...d3.pointer(event))));
    this.selection.on("pointerleave", () => this.#point(null));
    this.canvas.addEventListener("keydown", (event) => this.#onKey(event));
    new ResizeObserver(() => this.#resize()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.#readColours();
      this.draw();
    });
  }

  #drag(index, x, y, isOver) {
    const [layoutX, layoutY] = this.transform.invert([x, y]);
    this.fits = false;
    this.worker.postMessage({ kind: "drag", index, x: layoutX, y: layoutY, isOver });
  }

  #point(index) {
    if (index === this.pointed) return;
    this.pointed = index;
    this.canvas.style.cursor = index === null ? "grab" : "pointer";
    this.draw();
  }

  /** The node under a point of the canvas, or null. */
  #at(x, y) {
    let nearest = null;
    let least = Infinity;
    this.nodes.forEach((node, index) => {
      const [nodeX, nodeY] = this.transform.apply([node.x, node.y]);
      const distance = Math.hypot(nodeX - x, nodeY - y) - this.#radiusOf(node);
      if (distance < 6 && distance < least) [nearest, least] = [index, distance];
    });
    return nearest;
  }

  #onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => this.#pan(60, 0), ArrowRight: () => this.#pan(-60, 0),
      ArrowUp: () => this.#pan(0, 60), ArrowDown: () => this.#pan(0, -60),
      "+": () => this.zoomBy(1.4), "=": () => this.zoomBy(1.4), "-": () => this.zoomBy(1 / 1.4),
      0: () => this.fit(), n: () => this.#step(1), p: () => this.#step(-1),
      Enter: () => this.cursor >= 0 && this.choose(this.nodes[this.byWeight[this.cursor]].id),
      Escape: () => this.choose(null),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  #pan(x, y) {
    this.fits = false;
    this.selection.call(this.zoom.translateBy, x / this.transform.k, y / this.transform.k);
  }

  #step(by) {
    if (!this.nodes.length) return;
    this.cursor = (this.cursor + by + (this.cursor < 0 && by < 0 ? 1 : 0) + this.nodes.length) % this.nodes.length;
    const node = this.nodes[this.byWeight[this.cursor]];
    this.#point(this.byWeight[this.cursor]);
    this.show(node.id);
    this.say(`${node.label}, ${node.dependents} rest on it. Enter chooses it.`);
  }

  // -- drawing ---------------------------------------------------------------------------------

  #resize() {
    const { width, height } = this.canvas.parentElement.getBoundingClientRect();
    if (!width || !height) return;
    const moved = this.width ? [(width - this.width) / 2, (height - this.height) / 2] : [0, 0];
    [this.width, this.height] = [width, height];
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    if (this.fits) this.fit(true);
    else this.#setTransform(d3.zoomIdentity.translate(...moved).translate(this.transform.x, this.transform.y).scale(this.transform.k));
    this.draw();
  }

  #readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    this.colours = {
      status: STATUS_COLOURS.map(read), edge: read("--edge"), lit: read("--lit"), far: read("--lit-far"),
      text: read("--text"), ground: read("--stage"), attention: read("--attention"),
      reserved: read("--reserved"), accent: read("--accent"),
    };
  }

  /** Draw with the next frame. */
  draw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame((now) => {
      this.isDue = false;
      this.#paint(now);
    });
  }

  // Small and many: nodes shrink less than the picture does, so that they can still be seen.
  #radiusOf(node) {
    const power = this.nodes.length > LARGE ? 0.8 : 0.6;
    return Math.max(1.4, node.radius * Math.min(1.6, Math.pow(this.transform.k, power)));
  }

  #paint(now) {
    const { context, transform, colours } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.nodes.forEach((node) => {
      node.sx = node.x * transform.k + transform.x;
      node.sy = node.y * transform.k + transform.y;
    });
    const chosen = this.indexById.get(this.chosen);
    const isLit = (index) => index === chosen || this.stepOf.has(index);
    const hasChoice = chosen !== undefined;

    const kinds = { plain: [], near: [], far: [], against: [], faint: [] };
    for (const link of this.links) {
      if (hasChoice && isLit(link.source) && isLit(link.target) && this.#isRest(link)) {
        const isNear = link.source === chosen || link.target === chosen;
        kinds[isNear ? "near" : "far"].push(link);
      } else if (link.kind === "Contradicts") kinds.against.push(link);
      else if (link.kind === "Semantic" || link.kind === "SuspectedSupersedes") kinds.faint.push(link);
      else kinds.plain.push(link);
    }
    const dim = hasChoice ? 0.25 : 1;
    const thin = this.links.length > 6000 ? 0.3 : this.links.length > 1500 ? 0.6 : 1;
    this.#strokeLinks(kinds.faint, colours.edge, 0.7, 0.6 * dim * thin, [2, 3]);
    this.#strokeLinks(kinds.plain, colours.edge, 1, dim * thin, []);
    this.#strokeLinks(kinds.against, colours.attention, 1.4, 0.9 * dim, [5, 4]);
    this.#strokeLinks(kinds.far, colours.far, 1.2, 0.8, []);
    this.#strokeLinks(kinds.near, colours.lit, 1.8, 0.95, []);

    const groups = colours.status.map(() => []);
    const [dimmed, near, far] = [[], [], []];
    this.nodes.forEach((node, index) => {
      if (Number.isNaN(node.x)) return;
      if (this.stepOf.has(index)) (this.stepOf.get(index) ? far : near).push(node);
      else if (hasChoice && index !== chosen) dimmed.push(node);
      else groups[node.status].push(node);
    });
    colours.status.forEach((colour, status) => {
      this.#fillNodes(dimmed.filter((node) => node.status === status), colour, 0.22);
      this.#fillNodes(groups[status], colour, 1);
    });
    this.#fillNodes(far, colours.far, 0.95);
    this.#fillNodes(near, colours.lit, 1);
    this.#paintRings(now, chosen);
    this.#paintLabels(chosen, hasChoice);
    if (!this.wasDrawn && this.nodes.length && !Number.isNaN(this.nodes[0].x)) {
      this.wasDrawn = true;
      performance.mark("portal-drawn");
    }
  }

  /** Whether a link says that one end rests on the other. */
  #isRest({ kind }) {
    return kind === "Dependency" || kind === "Hierarchical";
  }

  #strokeLinks(links, colour, width, alpha, dash) {
    if (!links.length) return;
    const { context, nodes } = this;
    context.beginPath();
    for (const { source, target } of links) {
      context.moveTo(nodes[source].sx, nodes[source].sy);
      context.lineTo(nodes[target].sx, nodes[target].sy);
    }
    Object.assign(context, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha });
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  #fillNodes(nodes, colour, alpha) {
    if (!nodes.length) return;
    const { context } = this;
    context.beginPath();
    for (const node of nodes) {
      const radius = this.#radiusOf(node);
      if (node.sx < -radius || node.sy < -radius || node.sx > this.width + radius || node.sy > this.height + radius) continue;
      context.moveTo(node.sx + radius, node.sy);
      context.arc(node.sx, node.sy, radius, 0, 2 * Math.PI);
    }
    Object.assign(context, { fillStyle: colour, globalAlpha: alpha });
    context.fill();
    Object.assign(context, { strokeStyle: this.colours.ground, lineWidth: 1 });
    if (this.nodes.length < 800) context.stroke();
    context.globalAlpha = 1;
  }

  #paintRings(now, chosen) {
    const { context, colours } = this;
    const ring = (node, colour, gap, width, dash = []) => {
      if (!node || Number.isNaN(node.x)) return;
      context.beginPath();
      context.arc(node.sx, node.sy, this.#radiusOf(node) + gap, 0, 2 * Math.PI);
      Object.assign(context, { strokeStyle: colour, lineWidth: width });
      context.setLineDash(dash);
      context.stroke();
      context.setLineDash([]);
    };
    for (const id of this.marks.attention) ring(this.nodes[this.indexById.get(id)], colours.attention, 3, 2);
    for (const id of this.marks.reserved) ring(this.nodes[this.indexById.get(id)], colours.reserved, 6, 2, [3, 3]);
    ring(this.nodes[chosen], colours.text, 4, 2.5);
    ring(this.nodes[this.pointed], colours.accent, 4, 2);
    if (this.isStill) return;
    let glows = false;
    for (const node of this.nodes) {
      const age = now - node.bornAt;
      if (!node.bornAt || age > GLOW_MS) continue;
      glows = true;
      context.globalAlpha = 1 - age / GLOW_MS;
      ring(node, colours.accent, 4 + (18 * age) / GLOW_MS, 2);
      context.globalAlpha = 1;
    }
    if (glows) this.draw();
  }

  // Labels of what matters most come first; one that would cover another is left out.
  #paintLabels(chosen, hasChoice) {
    const { context, colours } = this;
    const isSmall = this.width < 500;
    const wanted = [this.pointed, chosen, ...this.stepOf.keys()];
    if (!hasChoice || this.transform.k > 1.2) wanted.push(...this.byWeight.slice(0, 600));
    const isCrowded = this.nodes.length > LARGE && this.transform.k < 1;
    const most = isSmall ? 14 : isCrowded ? 16 : LABELS_MAX;
    // No label on a node that is large enough to be seen by itself.
    const taken = this.nodes.length > 400 ? [] : this.nodes.map((node) => {
      const reach = this.#radiusOf(node) - 1;
      return [node.sx - reach, node.sy - reach, node.sx + reach, node.sy + reach];
    });
    let placed = 0;
    context.font = `${isSmall ? 11 : 12}px system-ui, sans-serif`;
    Object.assign(context, { textBaseline: "middle", lineJoin: "round", lineWidth: 3.5, strokeStyle: colours.ground, fillStyle: colours.text });
    const done = new Set();
    for (const index of wanted) {
      const node = this.nodes[index];
      if (!node || done.has(index) || Number.isNaN(node.x) || placed >= most) continue;
      done.add(index);
      if (node.sx < 0 || node.sy < 0 || node.sx > this.width || node.sy > this.height) continue;
      const isFirst = index === this.pointed || index === chosen;
      const text = shortened(node.label, isFirst ? 70 : 28);
      const width = context.measureText(text).width;
      let left = node.sx + this.#radiusOf(node) + (isFirst ? 12 : 7);
      if (left + width > this.width) left = Math.max(2, node.sx - this.#radiusOf(node) - 7 - width);
      const covers = (left) => {
        const box = [left - 2, node.sy - 8, left + width + 2, node.sy + 8];
        return taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
      };
      // To the right, else to the left, else not at all.
      const onLeft = node.sx - this.#radiusOf(node) - 7 - width;
      if (!isFirst && covers(left)) {
        if (onLeft < 2 || covers(onLeft)) continue;
        left = onLeft;
      }
      placed += 1;
      const box = [left - 2, node.sy - 8, left + width + 2, node.sy + 8];
      taken.push(box);
      context.globalAlpha = hasChoice && !isFirst && !this.stepOf.has(index) ? 0.5 : 1;
      context.strokeText(text, left, node.sy);
      context.fillText(text, left, node.sy);
    }
    context.globalAlpha = 1;
  }
}

const shortened = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
