// Shared worker with one stream of events for all tabs of a browser.

import { EventHub, openStream } from "./event-hub.js";

const LINGER_MS = 3000;

const hub = new EventHub({ openStream, lingerMs: LINGER_MS });
self.addEventListener("connect", (event) => hub.accept(/** @type {MessageEvent} */ (event).ports[0]));
