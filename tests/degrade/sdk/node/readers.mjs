// The SDKs on Node, each as its users read a stream.
//
//     node readers.mjs '[{"reader": "openai chat", "base": "http://127.0.0.1:1/x"}, …]'
//
// Prints, for each, {"text", "reason", "usage"} as its user is left with them, and {"error"} where the SDK throws. The
// packages are found in the folder that SDKS names.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const find = createRequire(join(process.env.SDKS, "package.json"));
const load = async (name) => import(pathToFileURL(find.resolve(name)));

const QUESTION = [{ role: "user", content: "tea?" }];
const SETTINGS = { apiKey: "none", maxRetries: 0 };

async function openai(base) {
  const { default: OpenAI } = await load("openai");
  return new OpenAI({ ...SETTINGS, baseURL: `${base}/v1` });
}

async function anthropic(base) {
  const { default: Anthropic } = await load("@anthropic-ai/sdk");
  return new Anthropic({ ...SETTINGS, baseURL: base });
}

async function gemini(base) {
  const { GoogleGenAI } = await load("@google/genai");
  return new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: base } });
}

async function ollama(base) {
  const { Ollama } = await load("ollama");
  return new Ollama({ host: base });
}

async function words(stream, heard, of) {
  for await (const piece of stream) {
    heard.text += of(piece) ?? "";
  }
}

const READERS = {
  "openai chat": async (base, heard) => {
    const client = await openai(base);
    const stream = await client.chat.completions.create({ model: "m", messages: QUESTION, stream: true });
    await words(stream, heard, (piece) => {
      const choice = piece.choices[0];
      heard.reason = choice?.finish_reason ?? heard.reason;
      heard.usage = piece.usage ?? heard.usage;
      return choice?.index === 0 ? choice.delta.content ?? choice.delta.refusal : "";
    });
  },
  "openai chat helper": async (base, heard) => {
    const client = await openai(base);
    const stream = client.chat.completions.stream({ model: "m", messages: QUESTION });
    const whole = await stream.finalChatCompletion();
    const choice = whole.choices.find((each) => each.index === 0);
    heard.text = choice.message.content ?? choice.message.refusal;
    heard.reason = choice.finish_reason;
    heard.usage = whole.usage ?? null;
  },
  "openai completions": async (base, heard) => {
    const client = await openai(base);
    const stream = await client.completions.create({ model: "m", prompt: "tea?", stream: true });
    await words(stream, heard, (piece) => {
      heard.reason = piece.choices[0]?.finish_reason ?? heard.reason;
      return piece.choices[0]?.text;
    });
  },
  "openai responses": async (base, heard) => {
    const client = await openai(base);
    const stream = await client.responses.create({ model: "m", input: "tea?", stream: true });
    await words(stream, heard, (event) => {
      if (event.type === "response.incomplete" || event.type === "response.completed") {
        heard.reason = event.response.incomplete_details?.reason ?? event.response.status;
        heard.usage = event.response.usage;
      }
      return event.type === "response.output_text.delta" || event.type === "response.refusal.delta" ? event.delta : "";
    });
  },
  "openai responses helper": async (base, heard) => {
    const client = await openai(base);
    const stream = client.responses.stream({ model: "m", input: "tea?" });
    const whole = await stream.finalResponse();
    const parts = whole.output.filter((item) => item.type === "message").flatMap((item) => item.content);
    heard.text = parts.map((part) => part.text ?? part.refusal).join("");
    heard.reason = whole.incomplete_details?.reason ?? whole.status;
    heard.usage = whole.usage;
  },
  "anthropic messages": async (base, heard) => {
    const client = await anthropic(base);
    const stream = await client.messages.create({ model: "m", max_tokens: 9, messages: QUESTION, stream: true });
    await words(stream, heard, (event) => {
      if (event.type === "message_delta") {
        heard.reason = event.delta.stop_reason;
        heard.usage = event.usage;
      }
      return event.type === "content_block_delta" ? event.delta.text : "";
    });
  },
  "anthropic messages helper": async (base, heard) => {
    const client = await anthropic(base);
    const whole = await client.messages.stream({ model: "m", max_tokens: 9, messages: QUESTION }).finalMessage();
    heard.text = whole.content.map((block) => block.text ?? "").join("");
    heard.reason = whole.stop_reason;
    heard.usage = whole.usage;
  },
  gemini: async (base, heard) => {
    const client = await gemini(base);
    const stream = await client.models.generateContentStream({ model: "gemini-2.5-flash", contents: "tea?" });
    await words(stream, heard, (piece) => {
      heard.usage = piece.usageMetadata ?? heard.usage;
      const candidate = piece.candidates?.find((each) => (each.index ?? 0) === 0);
      heard.reason = candidate?.finishReason ?? heard.reason;
      return candidate?.content?.parts?.map((part) => (part.thought ? "" : part.text ?? "")).join("");
    });
  },
  "gemini chat": async (base, heard) => {
    const client = await gemini(base);
    const chat = client.chats.create({ model: "gemini-2.5-flash" });
    await words(await chat.sendMessageStream({ message: "tea?" }), heard, (piece) => {
      heard.reason = piece.candidates?.[0]?.finishReason ?? heard.reason;
      heard.usage = piece.usageMetadata ?? heard.usage;
    });
    const said = chat.getHistory().slice(1).flatMap((each) => each.parts);
    heard.text = said.map((part) => (part.thought ? "" : part.text ?? "")).join("");
  },
  "ollama chat": async (base, heard) => {
    const client = await ollama(base);
    await words(await client.chat({ model: "m", messages: QUESTION, stream: true }), heard, (piece) => {
      heard.reason = piece.done_reason ?? heard.reason;
      return piece.message.content;
    });
  },
  "ollama generate": async (base, heard) => {
    const client = await ollama(base);
    await words(await client.generate({ model: "m", prompt: "tea?", stream: true }), heard, (piece) => {
      heard.reason = piece.done_reason ?? heard.reason;
      return piece.response;
    });
  },
};

async function read({ reader, base }) {
  const heard = { text: "", reason: null, usage: null };
  try {
    await READERS[reader](base, heard);
  } catch (error) {
    return { ...heard, error: `${error.constructor.name}: ${error.message}` };
  }
  return heard;
}

console.log(JSON.stringify(await Promise.all(JSON.parse(process.argv[2]).map(read))));
