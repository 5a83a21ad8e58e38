// Clients of Node, each as its users write it.
//
//     node calls.mjs CLIENT URL...
//
// Calls each URL once with GET and prints a line for each: the URL, and the status or what went wrong. Packages that
// Node does not bring are looked for in NODE_PATH.
import http from "node:http";
import https from "node:https";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [client, ...urls] = process.argv.slice(2);

function withModule(url) {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith("https:") ? https : http).get(url, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    request.on("error", reject);
  });
}

const CLIENTS = {
  fetch: async (url) => (await fetch(url)).status,
  "http.request": withModule,
  undici: async (url) => (await require("undici").request(url)).statusCode,
  "undici with EnvHttpProxyAgent": async (url) => {
    const { request, EnvHttpProxyAgent } = require("undici");
    return (await request(url, { dispatcher: new EnvHttpProxyAgent() })).statusCode;
  },
  axios: async (url) => (await require("axios").get(url)).status,
  got: async (url) => (await (await import(require.resolve("got"))).default(url, { retry: { limit: 0 } })).statusCode,
  "node-fetch": async (url) => (await (await import(require.resolve("node-fetch"))).default(url)).status,
  openai: async (url) => {
    const { OpenAI } = require("openai");
    await new OpenAI({ apiKey: "none", baseURL: url, maxRetries: 0 }).models.list();
    return 200;
  },
  anthropic: async (url) => {
    const { Anthropic } = require("@anthropic-ai/sdk");
    await new Anthropic({ apiKey: "none", baseURL: url, maxRetries: 0 }).models.list();
    return 200;
  },
};

for (const url of urls) {
  try {
    console.log(url, await CLIENTS[client](url));
  } catch (error) {
    console.log(url, String(error.cause ?? error).replaceAll("\n", " ").slice(0, 300));
  }
}
