// Calls of one process on Node, one after the other, as an agent makes them: they share a pool of connections.
//
//     node fetches.mjs '[["POST", "http://tool/orders", "{}"], ["GET", "http://tool/orders"]]'
//
// Prints a list of {"status", "fields", "body"}, or {"error"} for a call that failed without an answer.
const seen = [];
for (const [method, url, body] of JSON.parse(process.argv[2])) {
  try {
    const response = await fetch(url, { method, body });
    seen.push({ status: response.status, fields: Object.fromEntries(response.headers), body: await response.text() });
  } catch (error) {
    seen.push({ error: String(error.cause ?? error) });
  }
}
console.log(JSON.stringify(seen));
