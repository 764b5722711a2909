// Reads a stream of chat tokens with fetch: in Node, and in a page of a headless Chromium.
//
//	fetch.mjs node|browser held|all HOST:PORT
//
// The same function is run in both. Needs, for the browser, the packages @sparticuz/chromium and puppeteer-core from the folder NODE_MODULES_AT.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [where, what, address] = process.argv.slice(2);
const base = `http://${address}`;
const tokens = 300;
const began = performance.now();

const print = (...fields) => console.log(fields.map((field) => String(field).replace(/\s+/g, ' ')).join('\t'));
const check = (name, ok, seen) => print('check', `${where}: ${name}`, ok ? 'ok' : 'failed', seen);

// chat runs in Node or in a page, so it may use nothing from around it.
async function chat(base, tokens, stream) {
	const started = performance.now();
	const answer = await fetch(`${base}/v1/chat/completions`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ messages: [{ role: 'user', content: 'say something' }], max_tokens: tokens, temperature: 0, stream, ignore_eos: true }),
	});
	const head = { status: answer.status, type: answer.headers.get('content-type'), timing: answer.headers.get('server-timing') };
	if (!stream || !answer.ok) {
		const said = await answer.json();
		return { ...head, text: said.choices?.[0].message.content ?? JSON.stringify(said) };
	}
	const at = [], reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = '', rest = '', done = false;
	for (;;) {
		const piece = await reader.read();
		if (piece.done) break;
		at.push(performance.now() - started);
		const lines = (rest + piece.value).split('\n');
		rest = lines.pop();
		for (const line of lines) {
			if (line === 'data: [DONE]') done = true;
			else if (line.startsWith('data: ')) text += JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? '';
		}
	}
	return { ...head, text, done, pieces: at.length, first: at[0], last: at.at(-1) };
}

async function all(run) {
	const whole = await run(base, tokens, false);
	check('chat in one piece', whole.status === 200 && whole.text.length > tokens, `${whole.status}, ${whole.text.length} characters`);
	const stream = await run(base, tokens, true);
	check('chat stream says the same and ends', stream.text === whole.text && stream.done, `${stream.status} ${stream.type}, ${stream.text.length} characters, [DONE] ${stream.done}`);
	// fetch hands over what has come since it was last asked, so pieces may be fewer than tokens, never one.
	check('chat stream, piece by piece', stream.pieces >= 10 && stream.first < stream.last / 3,
		`${stream.pieces} pieces, first after ${Math.round(stream.first)} ms, last after ${Math.round(stream.last)} ms`);
	for (const name of ['pieces', 'first', 'last']) print('figure', `${where}_stream_${name}${name === 'pieces' ? '' : '_ms'}`, Math.round(stream[name]));
}

async function held(run) {
	const answer = await run(base, 4, false);
	check('held: chat', answer.status === 200 && answer.text.length > 0, `${answer.status}, ${answer.text}`);
	print('figure', 'held_ms', Math.round(performance.now() - began)); // of the browser, its start and the page that it opens first included
}

async function inBrowser(act) {
	const required = createRequire(pathToFileURL(`${process.env.NODE_MODULES_AT}/`));
	const load = async (name) => (await import(pathToFileURL(required.resolve(name)))).default;
	const [chromium, puppeteer] = [await load('@sparticuz/chromium'), await load('puppeteer-core')];
	const browser = await puppeteer.launch({
		executablePath: await chromium.executablePath(),
		headless: 'shell',
		// As root there is no sandbox. Nothing else of the browser's rules is switched off: the page and what it fetches have one origin.
		args: ['--no-sandbox', '--no-zygote', '--disable-gpu', '--disable-dev-shm-usage'],
	});
	try {
		const page = await browser.newPage();
		page.setDefaultTimeout(60_000);
		const opened = await page.goto(`${base}/v1/models`, { timeout: 60_000 });
		check(`${what === 'held' ? 'held: ' : ''}a page opens`, opened.status() === 200, `${opened.status()} in ${await browser.version()}`);
		await act((...given) => page.evaluate(chat, ...given));
	} finally {
		await browser.close();
	}
}

const act = what === 'held' ? held : all;
await (where === 'browser' ? inBrowser(act) : act(chat));
