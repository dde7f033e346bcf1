// Finds places for the nodes of a graph, beside the page: d3-force in a worker, so that dragging and
// zooming stay quick whatever the size. It is told nodes by number and answers with coordinates.

importScripts("vendor/d3-7.9.0.min.js");

const LARGE = 1500;
let simulation = null;
let nodes = [];
let version = 0;
let isTicking = false;

onmessage = ({ data }) => {
  if (data.kind === "load") load(data);
  else if (data.kind === "drag") drag(data);
};

function load({ positions, radii, links, alpha, version: number }) {
  version = number;
  const isLarge = radii.length > LARGE;
  // A few nodes have room for their names.
  const room = radii.length < 150 ? 2 : 1;
  nodes = Array.from(radii, (radius, index) => {
    const [x, y] = [positions[2 * index], positions[2 * index + 1]];
    return Number.isNaN(x) ? { radius } : { radius, x, y };
  });
  const joined = [];
  for (let at = 0; at < links.length; at += 2) joined.push({ source: links[at], target: links[at + 1] });
  simulation = d3.forceSimulation(nodes)
    .stop()
    .alpha(alpha)
    .alphaDecay(1 - Math.pow(0.001, 1 / (isLarge ? 140 : 280)))
    .force("link", d3.forceLink(joined).distance(({ source, target }) => 26 * room + source.radius + target.radius))
    .force("charge", d3.forceManyBody().strength((node) => room * (-36 - 9 * node.radius)).distanceMax(700).theta(isLarge ? 1.2 : 0.9))
    .force("x", d3.forceX().strength(0.05))
    .force("y", d3.forceY().strength(0.07));
  if (!isLarge) simulation.force("collide", d3.forceCollide((node) => node.radius + 5 * room * room));
  // The first picture of a small graph is a rough order already, not a knot.
  if (alpha === 1 && !isLarge) simulation.tick(120);
  tick();
}

function drag({ index, x, y, isOver }) {
  const node = nodes[index];
  if (!node) return;
  [node.fx, node.fy] = isOver ? [null, null] : [x, y];
  simulation.alphaTarget(isOver ? 0 : 0.25).alpha(Math.max(simulation.alpha(), 0.25));
  tick();
}

async function tick() {
  if (isTicking) return;
  isTicking = true;
  while (simulation.alpha() > simulation.alphaMin()) {
    simulation.tick();
    tell();
    // A small graph takes its time, so that people can follow it.
    await new Promise((go) => setTimeout(go, nodes.length > LARGE ? 0 : 12));
  }
  isTicking = false;
}

function tell() {
  const places = new Float32Array(2 * nodes.length);
  nodes.forEach((node, index) => {
    places[2 * index] = node.x;
    places[2 * index + 1] = node.y;
  });
  postMessage({ version, places, isSettled: simulation.alpha() <= simulation.alphaMin() }, [places.buffer]);
}
