// A call as services on Node make it: fetch, and around it the retries of got and ky, which repeat a dropped connection
// and every status that they take for passing.
//
//     node fetch.mjs METHOD URL BODY
//
// Prints {"status", "fields", "body"}; of a call that failed without an answer, or in the middle of one, {"error"}.
const [method, url, body] = process.argv.slice(2);
const PASSING = [408, 413, 429, 500, 502, 503, 504, 521, 522, 524];

async function once() {
  try {
    const response = await fetch(url, {
      method,
      headers: { "content-type": "application/json" },
      body: body || undefined,
    });
    return { status: response.status, fields: Object.fromEntries(response.headers), body: await response.text() };
  } catch (error) {
    return { error: String(error.cause ?? error) };
  }
}

let last;
for (let attempt = 0; attempt < 3; attempt++) {
  last = await once();
  if (!last.error && !PASSING.includes(last.status)) break;
  await new Promise((resolve) => setTimeout(resolve, 10));
}
console.log(JSON.stringify(last));
