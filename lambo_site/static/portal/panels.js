// The lists of the page: each function draws what the server said into one place. Whoever clicks a
// concept chooses it; that is all a panel can do.

import { ago, count, el, put } from "./elements.js";

const STATUSES = ["None", "Candidate", "Venerable", "Canonical"];

/** A concept as a button that chooses it, with a dot of its status. */
function concept(choose, { node_id: id, content, status }, ...more) {
  return el("button", { class: "concept", "data-key": id, "data-id": id, onclick: () => choose(id) },
    status ? el("i", { class: `dot ${status.toLowerCase()}`, title: `Status ${status}` }) : null,
    el("span", { class: "name" }, content), ...more);
}

/** How much of the most there is, as a bar; the number stands beside it. */
function bar(value, most) {
  const full = el("span", { class: "full" });
  full.style.width = `${(100 * value) / most}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, full);
}

const nothing = (text) => el("p", { class: "empty" }, text);

export function showTiles(place, { stats, findings, agents }) {
  const tile = (figure, noun, mood = "") => el("div", { class: `tile ${mood}` }, el("b", {}, figure), el("span", {}, noun));
  const embedding = stats.embedding;
  const going = embedding.reembedding && ["running", "paused"].includes(embedding.reembedding.state);
  put(place,
    tile(stats.concept_count.toLocaleString("en"), "concepts"),
    tile(stats.edge_count.toLocaleString("en"), "links"),
    tile(stats.interaction_count.toLocaleString("en"), "writes"),
    tile(agents.length, agents.length === 1 ? "agent" : "agents"),
    tile(stats.canonical_count, "canonical"),
    tile(findings.length, findings.length === 1 ? "finding" : "findings", findings.length ? "warn" : ""),
    tile(stats.degraded ? "away" : "healthy", "store", stats.degraded ? "bad" : "good"),
    tile(embedding.configured ? embedding.configured.kind : "none",
      going ? `embedder, ${embedding.reembedding.embedded} of ${embedding.reembedding.total}`
        : stats.missing_vectors ? `embedder, ${stats.missing_vectors} waiting` : "embedder"));
}

export function showMost(place, rows, choose) {
  const most = Math.max(1, ...rows.map((row) => row.dependents));
  const line = (row) => concept(choose, row,
    bar(row.dependents, most),
    el("span", { class: "number" }, String(row.dependents), el("span", { class: "hidden" }, " rest on it")));
  put(place, rows.length
    ? el("ol", { class: "bars" }, rows.slice(0, 12).map((row) => el("li", {}, line(row))))
    : nothing("Nothing rests on anything yet."));
}

export function showLadder(place, stats) {
  const held = stats.concepts_by_status;
  const most = Math.max(1, ...Object.values(held));
  const rung = (status) => el("li", { class: status.toLowerCase() },
    el("span", { class: "word" }, status === "None" ? "no status" : status),
    bar(held[status] ?? 0, most),
    el("b", { "data-status": status }, (held[status] ?? 0).toLocaleString("en")));
  put(place, el("ol", { class: "rungs" }, [...STATUSES].reverse().map(rung)));
}

export function showNear(place, { near, judged }, choose) {
  const line = (row) => el("li", {}, concept(choose, row), el("p", { class: "why" },
    el("b", {}, `to ${row.next_status}: `),
    row.sentence ?? "every gate is passed; the next evaluation decides."));
  put(place, near.length
    ? el("ul", { class: "rows" }, near.slice(0, 6).map(line))
    : nothing(judged ? `None of the ${judged} weightiest concepts is that near.` : "Nothing to rise yet."));
}

export function showFindings(place, rows, choose) {
  const names = { HighRiskModification: "High risk", StaleSession: "Quiet" };
  const line = (row) => el("li", { class: `finding severity-${row.severity}` },
    el("span", { class: "badge" }, names[row.condition] ?? row.condition),
    concept(choose, row), el("p", { class: "why" }, row.line));
  put(place, rows.length
    ? el("ul", { class: "rows" }, rows.slice(0, 12).map(line))
    : nothing("No conflict, contradiction, drift or risky change."));
}

export function showReservations(place, rows, choose) {
  const line = (row) => el("li", {}, concept(choose, row),
    el("p", { class: "why" }, el("b", {}, row.agent_id), " until ", clock(row.expires_at)));
  put(place, rows.length ? el("ul", { class: "rows" }, rows.map(line)) : nothing("Nobody holds anything."));
}

export function showAgents(place, rows) {
  const head = ["agent", "writes", "concepts", "last"].map((name) => el("th", { scope: "col" }, name));
  const line = (row) => el("tr", { "data-agent": row.agent_id },
    el("th", { scope: "row" }, row.agent_id),
    el("td", {}, row.writes.toLocaleString("en")),
    el("td", {}, row.concepts.toLocaleString("en")),
    el("td", {}, moment(row.last_at)));
  put(place, rows.length
    ? el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map(line)))
    : nothing("Nobody has written yet."));
}

export function showPromotions(place, steps, choose, adminUrl) {
  const rung = (status) => el("span", { class: `rung ${status.toLowerCase()}` }, status);
  const line = (step) => el("li", { class: step.kind },
    el("p", { class: "step" }, rung(step.from_status), " → ", rung(step.to_status), " ", moment(step.at)),
    step.is_live ? concept(choose, { ...step, status: null }) : el("p", { class: "name" }, step.content),
    evidence(step, choose, adminUrl));
  put(place, steps.length
    ? el("ol", { class: "rows steps" }, steps.map(line))
    : nothing("No concept has changed its status yet."));
}

function evidence(step, choose, adminUrl) {
  const held = step.evidence;
  const link = adminUrl
    ? el("p", {}, el("a", { href: `${adminUrl}memory/auditevent/${step.id}/change/` }, "The audit row")) : null;
  if (!held) {
    return el("p", { class: "why" }, [step.reason, `by ${step.actor}`].filter(Boolean).join(", "), " ", link);
  }
  const counted = `${count(held.support_count, "dependent")} counted, ${held.policy ?? "no policy named"}`;
  const name = (one) => el("li", {},
    concept(choose, { ...one, status: null }, el("small", {}, ` ${one.agent_id}`)));
  return el("details", { "data-key": `why-${step.id}` },
    el("summary", {}, step.kind === "demoted" ? step.reason ?? "Why" : counted),
    el("ul", { class: "gates" }, held.checks.map((check) => gate(check))),
    held.supports.length ? el("ul", { class: "names" }, held.supports.map(name)) : null,
    link);
}

const gate = ({ met, sentence }) => el("li", { class: met ? "met" : "unmet" },
  el("span", { class: "hidden" }, met ? "passed: " : "not passed: "), sentence);

export function showInspect(place, found, choose, adminUrl) {
  const { concept: about, focus, admission } = found;
  const radius = focus.blast_radius;
  const groups = new Map();
  const around = focus.levels.flatMap((level) => level.neighbours);
  for (const one of around.filter(({ edge_type: kind }) => kind !== "Derives" && kind !== "Temporal")) {
    const key = relation(one);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const group = ([title, ones]) => el("div", {},
    el("h4", {}, `${title} (${ones.length})`),
    el("ul", { class: "names" },
      ones.slice(0, 30).map((one) => el("li", {}, concept(choose, { ...one, content: one.label }))),
      ones.length > 30 ? el("li", { class: "empty" }, `and ${ones.length - 30} more`) : null));
  put(place,
    el("h3", { class: "content", tabindex: "-1" }, about ? about.content : focus.label),
    about ? el("p", { class: "facts" }, el("i", { class: `dot ${about.status.toLowerCase()}` }),
      `${about.concept_type}, written by `, el("b", {}, about.agent_id)) : null,
    radius === null ? null : el("p", { class: "radius" }, el("b", {}, String(radius)),
      radius === 1 ? " concept rests on it" : " concepts rest on it"),
    admission ? standing(admission) : null,
    [...groups].sort(([one], [other]) => order(one) - order(other)).map(group),
    adminUrl && about ? el("p", {}, el("a", { href: `${adminUrl}memory/concept/${focus.node_id}/change/` },
      "Open it in the admin, to confirm, retract or restore")) : null);
}

const RELATIONS = {
  Dependency: { in: "Rests on it", out: "It rests on" },
  Hierarchical: { in: "It is a part of", out: "Its parts" },
  Contradicts: { in: "Contradicted by", out: "It contradicts" },
  SuspectedSupersedes: { in: "May be replaced by", out: "May replace" },
  Causal: { in: "Caused by", out: "It causes" },
  Semantic: { in: "Says something like it", out: "Says something like it" },
  CoOccurrence: { in: "Written together with", out: "Written together with" },
};
const ORDER = [
  "Contradicted by", "It contradicts", "Rests on it", "Its parts", "It rests on", "It is a part of",
  ...Object.values(RELATIONS).slice(3).flatMap((words) => [words.in, words.out]),
];
const order = (title) => ORDER.indexOf(title);
const relation = ({ edge_type: kind, direction }) => RELATIONS[kind]?.[direction] ?? kind;

function standing(admission) {
  const place = STATUSES.indexOf(admission.status);
  return el("div", { class: "standing" },
    el("ol", { class: "way", "aria-label": "Its place on the ladder" }, STATUSES.map((status, at) => el("li", {
      class: `${status.toLowerCase()}${at <= place ? " reached" : ""}`, "aria-current": at === place ? "step" : null,
    }, status === "None" ? "none" : status))),
    el("p", { class: "why" }, admission.next_status
      ? `${admission.eligible ? "Eligible" : "Not yet"} for ${admission.next_status} under ${admission.policy}:`
      : `There is no higher status under ${admission.policy}.`),
    el("ul", { class: "gates" }, admission.checks.map((check) => gate(check))),
    admission.confirmations ? el("p", { class: "why" }, `Confirmed by people ${count(admission.confirmations, "time")}.`) : null);
}

/** Before anything is asked: questions that this memory can answer. */
export function offerQuestions(place, rows, ask) {
  const offers = rows.slice(0, 3).map((row) => `what depends on ${row.content}`);
  put(place, el("p", { class: "empty" }, "Shows what was found, how, and the very text an agent would read."),
    offers.length ? el("p", { class: "offers" }, offers.map((text) => el("button", { onclick: () => ask(text) }, text))) : null);
}

export function showRecall(place, answer, choose) {
  // What a hit is warned of stands on its card; here is what is said of the whole answer.
  const onCards = new Set(answer.hits.flatMap((hit) => hit.annotations.map((one) => one.text)));
  const warnings = answer.warnings.filter((line) => !onCards.has(line));
  const left = answer.left_out ? `, ${count(answer.left_out, "hit")} left out` : "";
  put(place,
    warnings.length ? el("ul", { class: "warnings" }, warnings.map((line) => el("li", {}, line))) : null,
    el("div", { class: "answer" },
      el("div", {},
        el("h3", {}, answer.hits.length ? count(answer.hits.length, "hit") : "No hits"),
        el("ol", { class: "cards", tabindex: "0", "aria-label": "Hits" }, answer.hits.map((hit) => card(hit, choose)))),
      el("div", {},
        el("h3", {}, "What the agent gets ",
          el("small", { id: "recall-cost" }, `${answer.tokens} of ${answer.max_tokens} tokens${left}`)),
        el("pre", { class: "context", tabindex: "0", "aria-label": "Context block" },
          answer.context || "(empty)"))));
}

function card(hit, choose) {
  return el("li", { class: `card${hit.included_in_context ? "" : " out"}` },
    concept(choose, { ...hit, status: hit.is_canonical ? "Canonical" : null }),
    el("p", { class: "facts" }, el("b", { class: "score" }, hit.score.toFixed(2)), ` ${hit.concept_type} `,
      hit.legs.map((leg) => el("span", { class: "leg" }, leg)), hit.included_in_context ? null : " left out of the text"),
    hit.annotations.length ? el("ul", { class: "warnings" }, hit.annotations.map((one) => el("li", { class: one.kind }, one.text))) : null);
}

const moment = (instant) => el("time", { datetime: instant, title: instant }, ago(instant));
const clock = (instant) => el("time", { datetime: instant, title: instant, class: "clock" }, new Date(instant).toLocaleTimeString());
