// Tests of a tab's subscription to the shared worker, with a fake worker and fake clocks.

import { deepEqual, equal } from "node:assert/strict";
import { EventClient } from "../../../api/web/static/live/event-client.js";

const TRIALS = [{ names: ["trial"], searches: null }];

let now = 0;
/** @type {(() => void)[]} */
let ticks = [];

/** Replaces the clocks, the shared worker and the page's own hub. Returns the messages to the shared worker. */
function worker() {
  const messages = [];
  now = 0;
  ticks = [];
  performance.now = () => now;
  globalThis.setInterval = (tick) => ticks.push(tick);
  globalThis.SharedWorker = class {
    port = { postMessage: (message) => messages.push(message) };
    addEventListener() {}
  };
  globalThis.MessageChannel = class {
    port1 = { postMessage() {} };
    port2 = {};
  };
  return messages;
}

const clientOf = () => new EventClient({ opened() {}, event() {} });

Deno.test("a subscription that is not answered yet is not repeated, and the tab keeps the shared worker", () => {
  const messages = worker();
  const client = clientOf();
  now = 19_990;
  client.subscribe(TRIALS);
  now = 20_000;
  ticks[0]();
  deepEqual(messages, [{ filters: TRIALS }]);
});

Deno.test("a tab without an answer for a whole interval leaves the shared worker", () => {
  const messages = worker();
  clientOf().subscribe(TRIALS);
  now = 20_000;
  ticks[0]();
  equal(messages.length, 2);
  deepEqual(messages.at(-1), { filters: [] });
});
