"""The floor: a bare loop on the anthropic library with three in-process tools; no sandbox, permissions, or journal.

It shows the minimum cost of a session. Usage: python benchmarks/floor.py DIR PROMPT (ANTHROPIC_API_KEY,
ANTHROPIC_BASE_URL).
"""

import subprocess
import sys
from pathlib import Path

import anthropic

MARK = {"type": "ephemeral"}
TOOLS = [
    {
        "name": "Read",
        "description": "Read a file.",
        "input_schema": {
            "type": "object",
            "properties": {
                "file_path": {"type": "string"},
                "offset": {"type": "integer"},
                "limit": {"type": "integer"},
            },
            "required": ["file_path"],
        },
    },
    {
        "name": "Grep",
        "description": "Search with ripgrep.",
        "input_schema": {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "output_mode": {"type": "string"}},
            "required": ["pattern"],
        },
    },
    {
        "name": "Bash",
        "description": "Run a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
]


def run_tool(folder, name, given):
    """Run one tool in this process and return its output."""
    match name:
        case "Read":
            lines = (folder / given["file_path"]).read_text(errors="replace").splitlines()
            first = max(given.get("offset", 1), 1) - 1
            chosen = lines[first : first + given.get("limit", 2000)]
            return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(chosen, first + 1))
        case "Grep":
            mode = [] if given.get("output_mode") == "content" else ["-l"]
            command = ["rg", "--sort", "path", "-n", *mode, "--", given["pattern"], "."]
        case _:
            command = ["bash", "-c", given["command"]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    return (done.stdout + done.stderr)[:30_000] or "(nothing)"


def with_cache_marks(messages):
    """Return a copy of the messages with the last two user turns marked for the cache."""
    out = list(messages)
    for index in [i for i, message in enumerate(out) if message["role"] == "user"][-2:]:
        content = out[index]["content"]
        out[index] = {"role": "user", "content": [*content[:-1], {**content[-1], "cache_control": MARK}]}
    return out


def main(folder, prompt):
    """Call the model and run its tools until it answers."""
    client = anthropic.Anthropic(max_retries=0)
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    system = [{"type": "text", "text": "You are a coding agent.", "cache_control": MARK}]
    while True:
        with client.messages.stream(
            model="claude-opus-5-5", max_tokens=32_000, system=system, tools=TOOLS, messages=with_cache_marks(messages)
        ) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": [block.to_dict() for block in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            print(answer.content[-1].text)
            return
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(folder, call.name, call.input)}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
