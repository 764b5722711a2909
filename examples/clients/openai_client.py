"""Chats with a server of the OpenAI API, with OpenAI's own client, and looks at when each token comes.

    openai_client.py held|all HOST:PORT

Needs the package openai.
"""

import sys
import time

import openai
from report import Arrivals, check, figure

TOKENS = 100
MESSAGES = [{"role": "user", "content": "say something"}]


def held(client):
    started = time.monotonic()
    answer = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
    check("held: chat", bool(answer.choices[0].message.content), answer.choices[0].message.content)
    figure("held_ms", round(1000 * (time.monotonic() - started)))


def everything(client):
    models = [model.id for model in client.models.list()]
    check("models listed", bool(models), models)
    asked = {"model": "tiny", "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0, "seed": 1, "extra_body": {"ignore_eos": True}}
    whole = client.chat.completions.create(**asked)
    check("chat in one piece", whole.usage.completion_tokens == TOKENS, whole.usage)
    arrivals, text, ends = Arrivals(), "", []
    for chunk in client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            if choice.delta.content:
                arrivals.came()
                text += choice.delta.content
            if choice.finish_reason:
                ends.append(choice.finish_reason)
    check("chat stream says the same", text == whole.choices[0].message.content, f"{len(text)} characters of {len(whole.choices[0].message.content)}")
    check("chat stream ends properly", ends == ["length"], ends)
    arrivals.judge("chat stream, token by token", TOKENS * 9 // 10, "stream")
    # A user who leaves in the middle: the next request must not have to wait for the one that nobody reads.
    stream = client.chat.completions.create(**(asked | {"max_tokens": 3000}), stream=True)
    next(iter(stream))
    stream.close()
    started = time.monotonic()
    client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
    waited = time.monotonic() - started
    check("a stream left in the middle stops the server", waited < arrivals.at[-1], f"the next request took {1000 * waited:.0f} ms")
    try:
        client.chat.completions.create(model="tiny", messages=[], max_tokens=-7, extra_body={"messages": 1})
        check("a bad request is an error of its own", False, "it was answered")
    except openai.APIStatusError as error:
        check("a bad request is an error of its own", error.status_code in (400, 500), error)


if __name__ == "__main__":
    # No retries: a request that fails must be seen to fail.
    made = openai.OpenAI(base_url=f"http://{sys.argv[2]}/v1", api_key="none", max_retries=0, timeout=60)
    held(made) if sys.argv[1] == "held" else everything(made)
