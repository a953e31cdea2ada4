"""Requests that make a model's provider reach other hosts, run code, or charge another price for the agent."""

# ruff: noqa: E501 (a row is a line)
from __future__ import annotations

import gzip
import json
from typing import Any

from escape.attack import Attack, Call, ask_model

RESPONSES, CHAT = "/openai/responses", "/openai/chat/completions"
GEMINI = "/gemini/v1beta/models/gemini-3-flash:generateContent"
GPT, CLAUDE = {"model": "gpt-5-nano"}, {"model": "claude-sonnet-5-5", "max_tokens": 100}
AWAY = "https://203.0.113.7/?stolen"
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}


def claude(**more: object) -> dict[str, Any]:
    return {**CLAUDE, "messages": [{"role": "user", "content": "Hello."}], **more}


def says(*parts: object, **more: object) -> dict[str, Any]:
    return {**CLAUDE, "messages": [{"role": "user", "content": list(parts)}], **more}


def gpt(**more: object) -> dict[str, Any]:
    return {**GPT, "input": "Hello.", **more}


def gemini(*parts: object, **more: object) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts) or [{"text": "Hello."}]}], **more}


def raw(content: object) -> bytes:
    return json.dumps(content).encode()


URL_IMAGE = {"type": "image", "source": {"type": "url", "url": AWAY}}
# fmt: off
TOOLS: tuple[Attack, ...] = (
    *(ask_model(f"tool-{kind.replace('_', '-').replace('.', '-')}", f"the tool {kind}", claude(tools=[{"type": kind, "name": "x"}]))
      for kind in ("web_fetch_20250910", "web_fetch_20990101", "web_search_20250305", "code_execution_20250522", "code_execution_20250825",
                   "mcp_toolset", "advisor_20260301", "something_new_20270101", "Web_Fetch_20260101", "web_fetch_20260202 ")),
    *(ask_model(f"openai-tool-{kind.replace('_', '-')}", f"the tool {kind} of the Responses API", gpt(tools=[{"type": kind}]), RESPONSES)
      for kind in ("web_search", "web_search_preview", "web_search_preview_2025_03_11", "file_search", "code_interpreter", "image_generation", "mcp")),
    ask_model("openai-tool-hosted-shell", "the shell tool in a container of the provider", gpt(tools=[{"type": "shell", "environment": {"type": "container_auto"}}]), RESPONSES),
    ask_model("openai-tool-in-namespace", "an MCP server inside a namespace of tools", gpt(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "mcp", "server_url": AWAY}]}]), RESPONSES),
    ask_model("openai-tool-in-output", "tools that the output of a tool search brings", gpt(input=[{"type": "tool_search_output", "tools": [{"type": "mcp", "server_url": AWAY}]}]), RESPONSES),
    ask_model("openai-search-options", "web_search_options of a chat", {**GPT, "messages": [], "web_search_options": {}}, CHAT),
    *(ask_model(f"gemini-tool-{kind.replace('_', '-').lower()}", f"the tool {kind} of Gemini", gemini(tools=[{kind: {}}]), GEMINI)
      for kind in ("googleSearch", "google_search", "googleSearchRetrieval", "urlContext", "url_context", "codeExecution", "code_execution",
                   "fileSearch", "googleMaps", "enterpriseWebSearch", "computerUse", "retrieval", "mcpServers")),
    ask_model("gemini-tool-beside-functions", "a tool of the provider in the same object as functions", gemini(tools=[{"functionDeclarations": [], "name": "x", "urlContext": {}}]), GEMINI),
    ask_model("gemini-tool-not-in-a-list", "tools that are not a list", gemini(tools={"urlContext": {}}), GEMINI),
    ask_model("tool-among-messages", "a tool that is added in the middle of a conversation", says({"type": "tool_addition", "tool": FETCH})),
    ask_model("tool-type-as-list", "a type of tool that is no text", claude(tools=[{"type": ["web_fetch_20250910"], "name": "x"}])),
)
FIELDS: tuple[Attack, ...] = (
    ask_model("mcp-servers", "mcp_servers", claude(mcp_servers=[{"type": "url", "url": AWAY, "name": "m"}])),
    ask_model("container", "container, a machine at the provider", claude(container={"skills": [{"type": "custom", "skill_id": "s"}]})),
    ask_model("container-id", "the container of another call", claude(container="container_01")),
    ask_model("previous-response", "previous_response_id: what another session said", gpt(previous_response_id="resp_1"), RESPONSES),
    ask_model("stored-conversation", "conversation: what another session said", gpt(conversation="conv_1"), RESPONSES),
    ask_model("stored-prompt", "prompt: a template of the account, with a model of its own", gpt(prompt={"id": "pmpt_1"}), RESPONSES),
    ask_model("stored-item", "an item of another session by its id", gpt(input=[{"type": "item_reference", "id": "rs_1"}]), RESPONSES),
    ask_model("store", "store: the answer stays at the provider", gpt(store=True), RESPONSES),
    ask_model("background", "background: the answer is fetched later, without metering", gpt(background=True), RESPONSES),
    ask_model("cached-content", "cachedContent of another session", gemini(cachedContent="cachedContents/1"), GEMINI),
    ask_model("cached-content-snake", "cached_content of another session", gemini(cached_content="cachedContents/1"), GEMINI),
    ask_model("router-models", "models: a router may take another one", {**GPT, "messages": [], "models": ["gpt-5.5-pro"]}, CHAT),
    ask_model("router-plugins", "plugins of a router", {**GPT, "messages": [], "plugins": [{"id": "web"}]}, CHAT),
    ask_model("fallbacks", "fallbacks: another model may answer", claude(fallbacks=[{"model": "claude-mythos-5"}])),
    ask_model("betas-in-body", "betas in the body", claude(betas=["mcp-client-2025-11-20"])),
)
SOURCES: tuple[Attack, ...] = (
    ask_model("image-url", "an image that the provider fetches", says(URL_IMAGE)),
    ask_model("document-url", "a document that the provider fetches", says({"type": "document", "source": {"type": "url", "url": AWAY}})),
    ask_model("image-url-in-result", "an image inside the result of a tool", says({"type": "tool_result", "tool_use_id": "t", "content": [URL_IMAGE]})),
    ask_model("image-url-in-document", "an image inside the content of a document", says({"type": "document", "source": {"type": "content", "content": [URL_IMAGE]}})),
    ask_model("image-url-in-system", "an image in the system prompt", claude(system=[URL_IMAGE])),
    ask_model("image-url-deep", "an image below 400 lists", says(*json.loads("[" * 400 + json.dumps(URL_IMAGE) + "]" * 400))),
    ask_model("source-new-type", "a source of an unknown type", says({"type": "image", "source": {"type": "s3", "uri": "s3://b/k"}})),
    ask_model("source-without-type", "a source without a type", says({"type": "image", "source": {"url": AWAY}})),
    ask_model("file-id", "a file that was uploaded before", says({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    ask_model("container-upload", "a file for a container", says({"type": "container_upload", "file_id": "file_1"})),
    ask_model("openai-image-url", "image_url of a chat", {**GPT, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": AWAY}}]}]}, CHAT),
    ask_model("openai-input-image", "input_image by address", gpt(input=[{"role": "user", "content": [{"type": "input_image", "image_url": AWAY}]}]), RESPONSES),
    ask_model("openai-input-file-url", "input_file by address", gpt(input=[{"role": "user", "content": [{"type": "input_file", "file_url": AWAY}]}]), RESPONSES),
    ask_model("openai-input-file-id", "input_file by id", gpt(input=[{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]), RESPONSES),
    ask_model("openai-image-in-output", "an image in the output of a function", gpt(input=[{"type": "function_call_output", "output": [{"type": "input_image", "image_url": AWAY}]}]), RESPONSES),
    ask_model("gemini-file-data", "fileData by address", gemini({"fileData": {"fileUri": AWAY}}), GEMINI),
    ask_model("gemini-file-data-snake", "file_data by address", gemini({"file_data": {"file_uri": AWAY}}), GEMINI),
    ask_model("gemini-file-in-function", "fileData in the parts of a function's response", gemini({"functionResponse": {"name": "f", "response": {}, "parts": [{"fileData": {"fileUri": AWAY}}]}}), GEMINI),
    ask_model("gemini-file-in-system", "fileData in the system instruction", gemini(systemInstruction={"parts": [{"fileData": {"fileUri": AWAY}}]}), GEMINI),
    ask_model("count-tokens-image", "an image by address at the free endpoint that counts tokens", says(URL_IMAGE), "/anthropic/v1/messages/count_tokens"),
    ask_model("count-tokens-mcp", "mcp_servers at the free endpoint that counts tokens", claude(mcp_servers=[{"type": "url", "url": AWAY}]), "/anthropic/v1/messages/count_tokens"),
    ask_model("gemini-count-tokens", "a whole request inside countTokens", {"generateContentRequest": gemini({"fileData": {"fileUri": AWAY}})}, "/gemini/v1beta/models/gemini-3-flash:countTokens"),
)
READINGS: tuple[Attack, ...] = (
    ask_model("key-twice", "a key that occurs twice: which one counts?", b'{"model": "claude-sonnet-5-5", "tools": [{"type": "web_fetch_20250910"}], "tools": []}', rule="malformed_request"),
    ask_model("model-twice", "a model that is named twice", b'{"model": "claude-mythos-5", "model": "claude-sonnet-5-5"}', rule="malformed_request"),
    ask_model("key-escaped", "a key written with escapes", rb'{"model": "claude-sonnet-5-5", "mcp\u005fservers": [{"type": "url"}]}'),
    ask_model("key-other-case", "a key in other letters", claude(MCP_Servers=[{"type": "url", "url": AWAY}])),
    ask_model("key-camel-case", "a key in camel case", claude(mcpServers=[{"type": "url", "url": AWAY}])),
    ask_model("body-gzip", "a compressed body", gzip.compress(raw(claude(tools=[FETCH]))), rule="malformed_request", content_encoding="gzip"),
    ask_model("body-identity", "a body that claims an encoding", raw(claude(tools=[FETCH])), rule="malformed_request", content_encoding="identity, br"),
    ask_model("body-utf-16", "a body in UTF-16", json.dumps(claude(tools=[FETCH])).encode("utf-16"), rule="malformed_request"),
    ask_model("body-utf-7", "a body in UTF-7, by its type", raw(claude()), rule="malformed_request", content_type="application/json; charset=utf-7"),
    ask_model("body-bom", "a body with a byte order mark", b"\xef\xbb\xbf" + raw(claude(tools=[FETCH])), rule="malformed_request"),
    ask_model("body-form", "a body as a form", b'--x\r\nContent-Disposition: form-data; name="tools"\r\n\r\n[]\r\n--x--', rule="malformed_request", content_type="multipart/form-data; boundary=x"),
    ask_model("body-list", "a list of requests", raw([claude(tools=[FETCH])]), rule="malformed_request"),
    ask_model("body-two", "two objects after each other", raw(claude()) + raw(claude(tools=[FETCH])), rule="malformed_request"),
    ask_model("body-too-deep", "a body that is nested too deep to read", b'{"model": "claude-sonnet-5-5", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", rule="malformed_request"),
    ask_model("body-nan", "numbers that are none", b'{"model": "claude-sonnet-5-5", "max_tokens": NaN}', rule="malformed_request"),
)
ADDRESSES: tuple[Attack, ...] = (
    *(ask_model(f"endpoint-{name}", f"the endpoint {path}", claude(), path, rule="no_such_endpoint") for name, path in {
        "batches": "/anthropic/v1/messages/batches", "files": "/anthropic/v1/files", "skills": "/anthropic/v1/skills", "agents": "/anthropic/v1/agents",
        "complete": "/anthropic/v1/complete", "admin": "/anthropic/v1/organizations/api_keys", "dots": "/anthropic/v1/messages/../files",
        "encoded-dots": "/anthropic/v1/messages/%2e%2e/files", "encoded": "/anthropic/v1/%6dessages", "slashes": "/anthropic/v1//messages",
        "trailing": "/anthropic/v1/messages/", "semicolon": "/anthropic/v1/messages;x=1", "upper": "/anthropic/V1/messages",
        "openai-files": "/openai/files", "openai-batches": "/openai/batches", "openai-images": "/openai/images/generations",
        "openai-response": "/openai/responses/resp_1", "openai-realtime": "/openai/realtime/sessions", "openai-vectors": "/openai/vector_stores",
        "gemini-upload": "/gemini/upload/v1beta/files", "gemini-caches": "/gemini/v1beta/cachedContents",
        "gemini-batch": "/gemini/v1beta/models/gemini-3-flash:batchGenerateContent", "gemini-predict": "/gemini/v1beta/models/imagen:predict",
        "gemini-tuned": "/gemini/v1beta/tunedModels/x:generateContent", "gemini-slash": "/gemini/v1beta/models/..%2f..%2ffiles:generateContent"}.items()),
    ask_model("query-fields", "an answer without its usage, by ?fields=", gemini(), f"{GEMINI}?fields=candidates"),
    ask_model("query-method", "another method, by ?$httpMethod=", gemini(), f"{GEMINI}?$httpMethod=DELETE"),
    ask_model("query-betas", "betas in the query", claude(), "/anthropic/v1/messages?betas=files-api-2025-04-14"),
    ask_model("query-encoded", "a parameter written with escapes", gemini(), f"{GEMINI}?%66ields=candidates"),
    *(ask_model(f"beta-{name}", f"the beta {name}", claude(), rule="the beta is left out", leak=name, anthropic_beta=f"effort-2025-11-24, {name}")
      for name in ("mcp-client-2025-11-20", "files-api-2025-04-14", "code-execution-2025-08-25", "skills-2025-10-02", "web-fetch-2025-09-10",
                   "fast-mode-2026-02-01", "server-side-fallback-2026-07-01", "advisor-tool-2026-03-01", "something-new-2027-01-01")),
    Attack("beta-underscore", "model", "gateway", "betas in a header with an underscore", "the beta is left out",
           Call(claude(), headers=(("anthropic_beta", "files-api-2025-04-14"),), leak="files-api")),
    ask_model("header-field-mask", "an answer without its usage, by X-Goog-FieldMask", gemini(), GEMINI, "the header is left out", leak="fieldmask", x_goog_fieldmask="candidates"),
    ask_model("header-method", "another method, by X-HTTP-Method-Override", claude(), rule="the header is left out", leak="DELETE", x_http_method_override="DELETE"),
    ask_model("header-project", "another project pays, by OpenAI-Project", gpt(), RESPONSES, "the header is left out", leak="proj_other", openai_project="proj_other"),
    ask_model("header-quota", "another project pays, by X-Goog-User-Project", gemini(), GEMINI, "the header is left out", leak="other-project", x_goog_user_project="other-project"),
    ask_model("header-address", "another address, by X-Original-URL", claude(), rule="the header is left out", leak="/v1/files", x_original_url="/v1/files"),
)
PRICES: tuple[Attack, ...] = (
    *(ask_model(f"model-{name.replace('.', '-').replace('[', '-').replace(']', '').replace('/', '-').replace(':', '-')}", f"the model {name}, as an agent whose role has sonnet", claude(model=name), rule="model_not_allowed")
      for name in ("claude-opus-5-5", "claude-mythos-5", "claude-fable-5", "claude-opus-4-1", "claude-opus-5-5[1m]", "anthropic/claude-mythos-5", "claude-new-9", "")),
    ask_model("model-gpt-5-5-pro", "a dearer model of another provider", gpt(model="gpt-5.5-pro"), RESPONSES, "model_not_allowed"),
    ask_model("model-gemini-pro-large", "a dearer model, by its path", gemini(), "/gemini/v1beta/models/gemini-3.1-pro-preview:generateContent", "model_not_allowed"),
    ask_model("model-path-and-body", "a cheap model in the body, a dear one in the path", gemini(model="gemini-3-flash"), "/gemini/v1beta/models/gemini-3.1-pro:generateContent", "model_not_allowed"),
    *(ask_model(f"tier-{tier}", f"service_tier {tier}", gpt(service_tier=tier), RESPONSES) for tier in ("priority", "flex", "scale", "ultrafast")),
    ask_model("tier-camel-case", "serviceTier priority", gemini(serviceTier="priority"), GEMINI),
    ask_model("tier-anthropic", "service_tier priority", claude(service_tier="priority")),
    ask_model("speed-fast", "speed fast", claude(speed="fast")),
    ask_model("inference-geo", "inference_geo", claude(inference_geo="us")),
    ask_model("audio-output", "an answer in speech", {**GPT, "messages": [], "modalities": ["text", "audio"], "audio": {"voice": "x"}}, CHAT),
    ask_model("image-output", "an answer in pictures", gemini(generationConfig={"responseModalities": ["TEXT", "IMAGE"]}), GEMINI),
    ask_model("image-output-snake", "an answer in pictures, in snake case", gemini(generation_config={"response_modalities": ["IMAGE"]}), GEMINI),
)
# fmt: on
CALLS = (*TOOLS, *FIELDS, *SOURCES, *READINGS, *ADDRESSES, *PRICES)
