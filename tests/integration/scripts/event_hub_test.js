// Tests of the hub through which tabs share one event stream, with a fake stream and fake ports.

import { deepEqual, equal } from "node:assert/strict";
import { EventHub, matches, readEvent } from "../../../api/web/static/live/event-hub.js";

const ALL_TRIALS = [{ names: ["trial"], searches: null }];
const TRIALS_OF_3 = [{ names: ["trial"], searches: [3] }];
const WORKERS = [{ names: ["worker"], searches: null }];

/** @type {FakeStream[]} */
let streams = [];

class FakeStream extends EventTarget {
  readyState = EventSource.CONNECTING;

  constructor() {
    super();
    streams.push(this);
  }

  open() {
    this.readyState = EventSource.OPEN;
    this.onopen();
  }

  refuse() {
    this.readyState = EventSource.CLOSED;
    this.onerror();
  }

  close() {
    this.readyState = EventSource.CLOSED;
  }

  send(name, data) {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
  }
}

function hubOf(times = {}) {
  streams = [];
  return new EventHub({ openStream: () => new FakeStream(), lingerMs: 0, ...times });
}

class Tab {
  messages = [];

  constructor(hub, filters) {
    hub.accept(this);
    this.subscribe(filters);
  }

  subscribe(filters) {
    this.onmessage({ data: { filters } });
  }

  postMessage(message) {
    this.messages.push(message);
  }

  get events() {
    return this.messages.filter((message) => "event" in message).map(({ event }) => event.name);
  }

  get openness() {
    return this.messages.filter((message) => "open" in message).map(({ open }) => open);
  }
}

/** Waits until a condition holds; the test runner has a time limit. */
async function until(condition) {
  while (!condition()) await new Promise((done) => setTimeout(done, 1));
}

const TIMERS_STAY = { sanitizeOps: false, sanitizeResources: false }; // a hub exists as long as its shared worker
const test = (name, body) => Deno.test({ name, fn: body, ...TIMERS_STAY });

test("filters choose events by name and search", () => {
  const cases = [
    [["trial"], null, "trial", 3, true],
    [["trial"], [3, 4], "trial", 4, true],
    [["trial"], [3, 4], "trial", 5, false],
    [["search"], [3], "trial", 3, false],
    [["worker"], [3], "worker", null, true],
    [["deleted"], [], "deleted", 3, false],
    [["trial"], [3], "reset", null, true],
  ];
  for (const [names, searches, name, search, expected] of cases) {
    equal(matches({ names, searches }, { name, search }), expected, JSON.stringify([names, searches, name, search]));
  }
});

test("an event names its search", () => {
  deepEqual(readEvent("trial", '{"id": 70, "search_id": 3}'), { name: "trial", search: 3 });
  deepEqual(readEvent("search", '{"id": 3}'), { name: "search", search: 3 });
  deepEqual(readEvent("deleted", '{"id": 3}'), { name: "deleted", search: 3 });
  deepEqual(readEvent("worker", '{"id": "w1"}'), { name: "worker", search: null });
  deepEqual(readEvent("reset", "{}"), { name: "reset", search: null });
});

test("subscribers share one stream and get what they asked for", () => {
  const hub = hubOf();
  const tabs = [new Tab(hub, ALL_TRIALS), new Tab(hub, TRIALS_OF_3), new Tab(hub, [...WORKERS, ...TRIALS_OF_3])];
  equal(streams.length, 1);
  streams[0].send("trial", { id: 1, search_id: 3 });
  streams[0].send("trial", { id: 2, search_id: 4 });
  streams[0].send("worker", { id: "w1" });
  streams[0].send("reset", {});
  deepEqual(tabs.map((tab) => tab.events), [["trial", "trial", "reset"], ["trial", "reset"], ["trial", "worker", "reset"]]);
});

test("a new subscription replaces the one before and is answered", () => {
  const hub = hubOf();
  const tab = new Tab(hub, ALL_TRIALS);
  streams[0].open();
  tab.subscribe(WORKERS);
  streams[0].send("trial", { id: 1, search_id: 3 });
  deepEqual(tab.events, []);
  deepEqual(tab.openness, [false, true, true]);
});

test("the stream closes after the last subscriber has left and opens for the next one", async () => {
  const hub = hubOf();
  const [first, second] = [new Tab(hub, ALL_TRIALS), new Tab(hub, ALL_TRIALS)];
  streams[0].open();
  first.subscribe([]);
  streams[0].send("trial", { id: 1, search_id: 3 });
  deepEqual([first.events, second.events], [[], ["trial"]]);
  second.subscribe([]);
  await until(() => streams[0].readyState === EventSource.CLOSED);
  first.subscribe(ALL_TRIALS);
  equal(streams.length, 2);
  equal(first.openness.at(-1), false, "not open before the new stream is");
});

test("a change from one tab to another keeps the stream", async () => {
  const hub = hubOf({ lingerMs: 20 });
  const first = new Tab(hub, ALL_TRIALS);
  first.subscribe([]);
  const second = new Tab(hub, ALL_TRIALS);
  await new Promise((done) => setTimeout(done, 40));
  equal(streams.length, 1);
  equal(streams[0].readyState, EventSource.CONNECTING);
  second.subscribe([]);
  await until(() => streams[0].readyState === EventSource.CLOSED);
});

test("a refused stream is opened again while there are subscribers", async () => {
  const hub = hubOf({ reopenMs: 1 });
  const tab = new Tab(hub, ALL_TRIALS);
  streams[0].open();
  streams[0].refuse();
  await until(() => streams.length === 2);
  streams[1].open();
  deepEqual(tab.openness, [false, true, false, true]);
  tab.subscribe([]);
  await until(() => streams[1].readyState === EventSource.CLOSED);
});

test("a subscriber that has crashed is dropped", async () => {
  const hub = hubOf({ silentMs: 30 });
  new Tab(hub, ALL_TRIALS);
  await until(() => streams[0].readyState === EventSource.CLOSED);
});
