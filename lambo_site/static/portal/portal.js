// The page: which session is shown, what is asked of the server for it, and when. The server tells
// that something happened (server-sent events); then the panels concerned are asked for again.

import { healthCharts, withSample } from "./charts.js";
import { ago, coalesced, el, pause, put } from "./elements.js";
import { GraphView } from "./graph.js";
import * as panels from "./panels.js";

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((one) => [one.id, one]));
const { login: loginUrl, portal: sessionsUrl, admin: adminUrl } = document.body.dataset;
const KINDS = [
  "write", "reservation", "promotion", "demotion", "disappearance", "conflict", "contradiction",
  "high-risk", "drift", "stale", "cycle",
];
const MOVES_A_STATUS = new Set(["promotion", "demotion", "disappearance"]);
const TAKES_AWAY = new Set(["retract", "restore", "purge", "synonym"]); // verbs
const WHOLE_REST_MS = 2000;

let session = null;
let asOf = 0;
let total = 0;
let chosen = null;
let hasAsked = false; // whether the recall box shows an answer
let history = null;
let events = null;

const graph = new GraphView(page.graph, { choose, say: (text) => { page["graph-says"].textContent = text; } });
page.graph.view = graph;

// -- asking ------------------------------------------------------------------------------------

async function ask(name, query = {}) {
  const address = name === "" ? sessionsUrl : `${sessionsUrl}/${encodeURIComponent(session)}/${name}`;
  const search = new URLSearchParams(query).toString();
  const answer = await fetch(search ? `${address}?${search}` : address, { headers: { Accept: "application/json" } });
  if (answer.status === 401) {
    location.assign(loginUrl);
    return new Promise(() => {}); // the page is being left
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

/** A panel's work: of another session by now, its answer is dropped; what fails is said. */
function panel(name, show, query = () => ({})) {
  return async () => {
    const asked = session;
    try {
      const answer = await ask(name, query());
      if (asked === session) show(answer);
      complain(null);
      noteFilled(name);
    } catch (error) {
      complain(`${name}: ${error.message}`);
    }
  };
}

function complain(text) {
  page.trouble.hidden = !text;
  page.trouble.textContent = text ?? "";
}

const loadOverview = panel("overview", (answer) => {
  panels.showTiles(page.tiles, answer);
  panels.showMost(page.most, answer.most_depended_on, choose);
  panels.showLadder(page.ladder, answer.stats);
  panels.showFindings(page.findings, answer.findings, choose);
  panels.showReservations(page.reservations, answer.reservations, choose);
  panels.showAgents(page.agents, answer.agents);
  put(page.goals, answer.goals.length ? el("span", {}, "Goal: ", el("b", {}, answer.goals.join("; "))) : null);
  graph.mark(
    new Set(answer.findings.filter((one) => one.severity >= 2).map((one) => one.node_id)),
    new Set(answer.reservations.map((one) => one.node_id)));
  expireLater(answer.reservations);
  if (!hasAsked) panels.offerQuestions(page.recall, answer.most_depended_on, askMemory);
});
const loadNear = panel("near", (answer) => panels.showNear(page.near, answer, choose));
const loadPromotions = panel("promotions", ({ steps }) => panels.showPromotions(page.promotions, steps, choose, adminUrl));
const loadHealth = panel("health", (answer) => { history = answer; showHealth(); });
const loadWhole = panel("graph", (picture) => {
  graph.load(picture);
  notePicture(picture);
});
const loadSince = panel("graph", (picture) => {
  graph.merge(picture);
  notePicture(picture);
}, () => ({ since: asOf }));

function notePicture(picture) {
  asOf = picture.as_of;
  total = picture.total;
  page["graph-empty"].hidden = graph.nodes.length > 0;
  const left = total - graph.nodes.length;
  page.graph.setAttribute("aria-label", `Graph of ${graph.nodes.length} concepts${left > 0 ? `; ${left} with less weight are left out` : ""}`);
}

let isPartial = false; // something may be gone: only a whole picture tells
let wholeAt = -Infinity; // when the last one was asked for

async function refreshGraph() {
  // A sweep takes concepts out again and again: meanwhile what is new is shown at once, what is gone soon.
  const waitMs = asOf ? wholeAt + WHOLE_REST_MS - performance.now() : 0;
  if (isPartial && waitMs > 0) setTimeout(refresh.graph, waitMs);
  const isWhole = !asOf || (isPartial && waitMs <= 0);
  if (isWhole) {
    isPartial = false;
    wholeAt = performance.now();
  }
  await (isWhole ? loadWhole() : loadSince());
  if (total < graph.nodes.length && !isPartial) { // something is gone without a word
    isPartial = true;
    refresh.graph();
  }
}

const refresh = {
  overview: coalesced(() => loadOverview(), 250),
  graph: coalesced(refreshGraph, 100),
  // The dearest to answer, and the least urgent.
  near: coalesced(() => pause(1000).then(loadNear), 4000),
  promotions: coalesced(() => loadPromotions(), 500),
  chosen: coalesced(() => (chosen ? showChosen(chosen) : undefined), 400),
};

let expiry = 0;
function expireLater(reservations) {
  clearTimeout(expiry);
  const next = Math.min(...reservations.map((one) => Date.parse(one.expires_at)));
  if (Number.isFinite(next)) expiry = setTimeout(refresh.overview, Math.max(200, next - Date.now() + 100));
}

function showHealth() {
  if (history) put(page.health, ...healthCharts(history));
}

// -- choosing ----------------------------------------------------------------------------------

async function choose(id) {
  chosen = id;
  page["graph-says"].textContent = "";
  if (id === null) {
    graph.light(null, []);
    put(page.inspect, el("p", { class: "empty" }, "Choose a concept in the graph or in any list."));
    return;
  }
  await showChosen(id);
  if (chosen === id && document.activeElement !== page.graph) graph.show(id);
}

async function showChosen(id) {
  const asked = session;
  try {
    const [found, reach] = await Promise.all([ask("inspect", { focus: id }), ask("reach", { focus: id }).catch(() => ({ steps: [] }))]);
    if (chosen !== id || asked !== session) return;
    panels.showInspect(page.inspect, found, choose, adminUrl);
    graph.light(id, reach.steps);
    const further = reach.steps.slice(1).reduce((sum, ids) => sum + ids.length, 0);
    page["graph-says"].textContent = `${found.focus.blast_radius ?? 0} rest on it${further ? `, ${further} more on those` : ""}`;
  } catch (error) {
    if (chosen !== id || asked !== session) return;
    put(page.inspect, el("p", { class: "empty" }, error.message));
    graph.light(null, []);
  }
}

// -- hearing -----------------------------------------------------------------------------------

function listen() {
  events?.close();
  events = new EventSource(`${sessionsUrl}/${encodeURIComponent(session)}/events`);
  const heard = events;
  heard.onopen = () => {
    if (heard !== events) return;
    pulse("live", "live");
    // Whatever happened before is in what is asked for now.
    isPartial = true;
    everything();
  };
  for (const kind of KINDS) {
    heard.addEventListener(kind, ({ data }) => heard === events && onTold(JSON.parse(data)));
  }
  heard.addEventListener("gap", () => {
    isPartial = true;
    everything();
  });
  heard.addEventListener("health", ({ data }) => {
    if (heard !== events || !history) return;
    history = withSample(history, JSON.parse(data));
    showHealth();
  });
  heard.onerror = () => {
    if (heard !== events) return;
    pulse("away", "the server is away; trying again");
    if (heard.readyState === EventSource.CLOSED) setTimeout(() => heard === events && listenAgain(), 1000);
  };
}

/** A stream that was refused is not asked for again by the browser; a stranger is led to the login. */
async function listenAgain() {
  await ask("").catch(() => {});
  listen();
}

function onTold({ kind, agent_id: agent, data }) {
  if (kind === "disappearance" || TAKES_AWAY.has(data.verb)) isPartial = true;
  if (MOVES_A_STATUS.has(kind) || TAKES_AWAY.has(data.verb)) refresh.promotions();
  refresh.graph();
  refresh.overview();
  refresh.chosen();
  refresh.near();
  pulse("live", `live: ${agent ? `${agent}, ` : ""}${(data.verb ?? kind).replaceAll("-", " ")}`);
}

function pulse(state, text) {
  page.pulse.dataset.state = state;
  page.pulse.textContent = text;
}

function everything() {
  refresh.graph();
  refresh.overview();
  loadNear();
  refresh.promotions();
  loadHealth();
}

const unfilled = new Set(["overview", "graph", "near", "promotions", "health"]);

/** Note when the last panel was filled for the first time; the benchmark reads it. */
function noteFilled(name) {
  if (unfilled.delete(name) && !unfilled.size) performance.mark("portal-filled");
}

// -- sessions ----------------------------------------------------------------------------------

async function listSessions(wanted) {
  const { sessions, is_cut: isCut } = await ask("");
  const newest = [...sessions].sort((one, other) => other.open - one.open || other.created_at.localeCompare(one.created_at))[0];
  const names = sessions.map((one) => one.session);
  if (wanted && !names.includes(wanted)) names.unshift(wanted);
  page.session.replaceChildren(...names.map((name) => el("option", { value: name }, name)),
    ...(isCut ? [el("option", { disabled: true }, "more: name one in the address")] : []));
  const shown = wanted ?? newest?.session ?? "default";
  if (!names.includes(shown)) page.session.append(el("option", { value: shown }, shown));
  page.session.value = shown;
  return shown;
}

function enter(name) {
  session = name;
  [asOf, isPartial] = [0, false];
  choose(null);
  graph.load({ nodes: [], edges: [], edge_types: [] });
  hasAsked = false;
  put(page.recall);
  document.title = `${name} - Lambo`;
  pulse("waiting", "connecting");
  listen();
}

// -- controls ----------------------------------------------------------------------------------

page.session.addEventListener("change", () => {
  globalThis.history.replaceState(null, "", `?session=${encodeURIComponent(page.session.value)}`);
  enter(page.session.value);
});
page.session.addEventListener("focus", () => listSessions(session).catch((error) => complain(error.message)));
page["zoom-in"].addEventListener("click", () => graph.zoomBy(1.4));
page["zoom-out"].addEventListener("click", () => graph.zoomBy(1 / 1.4));
page.fit.addEventListener("click", () => graph.fit());

page.find.addEventListener("input", showFound);
page.find.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeFound();
  const first = page.found.querySelector("button");
  if (event.key === "ArrowDown" && first) {
    event.preventDefault();
    first.focus();
  }
  if (event.key === "Enter" && first) first.click();
});
page.found.addEventListener("keydown", (event) => {
  const item = document.activeElement.closest("li");
  const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling }[event.key];
  if (event.key === "Escape") closeFound();
  if (next) {
    event.preventDefault();
    next.querySelector("button").focus();
  }
});

function showFound() {
  const found = graph.search(page.find.value, 8);
  page.found.hidden = !found.length;
  page.found.replaceChildren(...found.map((node) => el("li", {}, el("button", {
    type: "button",
    onclick: () => {
      closeFound();
      choose(node.id);
    },
  }, node.label))));
}

function closeFound() {
  page.found.hidden = true;
  page.find.focus();
}

page["recall-form"].addEventListener("submit", (event) => {
  event.preventDefault();
  askMemory(page["recall-query"].value);
});

async function askMemory(query) {
  page["recall-query"].value = query;
  hasAsked = true;
  try {
    const answer = await ask("recall", { query, max_tokens: page["recall-tokens"].value, top_k: 8 });
    panels.showRecall(page.recall, answer, choose);
  } catch (error) {
    put(page.recall, el("p", { class: "trouble" }, error.message));
  }
}

// Only words on the screen grow older by themselves; nothing is asked for.
setInterval(() => {
  for (const one of document.querySelectorAll("time:not(.clock)")) one.textContent = ago(one.dateTime);
}, 10000);

addEventListener("pagehide", () => events?.close());
listSessions(new URLSearchParams(location.search).get("session"))
  .then(enter)
  .catch((error) => complain(error.message));
