-- Asks the agent beside Envoy whether the engine of a request is awake. The agent may take its time to answer: it holds the
-- request until the engine takes queries.
--
-- Nothing here may stop a request whose engine runs. Whatever the agent does but refuse, the request goes on as if there
-- were no agent; so it does if this script fails, since the request is addressed already.

local FRAMING_HEADER = "x-firebolt-transfer-encoding"
local METADATA = "firebolt.gateway"

-- For this long a thread takes the agent's word that an engine is ready, so that a busy engine costs one question a second.
local READY_FOR_MS = 1000
-- More engines than an instance has. Beyond that, everything is forgotten and asked again.
local MOST_REMEMBERED = 1024

-- When the agent was asked about the engines that it called ready. Each thread has a table of its own.
local ready_at = {}
local remembered = 0

-- A clock that was set back does not make anything younger.
local function is_remembered(engine, now)
  local at = ready_at[engine]
  return at ~= nil and at <= now and now - at < READY_FOR_MS
end

local function remember(engine, now)
  if not ready_at[engine] then
    if remembered >= MOST_REMEMBERED then
      ready_at = {}
      remembered = 0
    end
    remembered = remembered + 1
  end
  ready_at[engine] = now
end

-- How much of the request Envoy may have to keep while it waits, or nil if nobody can tell yet.
local function size(request, headers)
  local length = headers:get("content-length")
  if length then
    return length
  end
  local is_http1 = string.sub(request:streamInfo():protocol() or "", 1, 7) == "HTTP/1."
  if is_http1 and not headers:get(FRAMING_HEADER) then
    return "0"
  end
  return nil
end

-- Of the client's request, the agent sees no more than this.
local function ask(request, headers, engine)
  local context = request:filterContext()
  return request:httpCall(context:get("agent"), {
    [":method"] = "GET",
    [":path"] = "/hold",
    [":authority"] = "wake-agent",
    ["x-firebolt-engine"] = engine,
    ["x-firebolt-bytes"] = size(request, headers),
  }, nil, {
    ["timeout_ms"] = context:get("answer_timeout_ms"),
    ["send_xff"] = false,
  })
end

-- The agent's words for the client, or nil if they are no refusal. How long the request waited is added by the route.
local function refusal(answer, body)
  local status = tonumber(answer[":status"])
  if not body or not status or status < 400 or status > 599 then
    return nil
  end
  return {
    [":status"] = answer[":status"],
    ["content-type"] = answer["content-type"],
    ["retry-after"] = answer["retry-after"],
  }
end

-- Returns when the request may go on. A request that is refused does not return.
local function wake(request, headers, engine)
  local now = request:timestamp()
  if is_remembered(engine, now) then
    request:streamInfo():dynamicMetadata():set(METADATA, "wake", "ready")
    return
  end
  local answer, body = ask(request, headers, engine)
  local metadata = request:streamInfo():dynamicMetadata()
  local decision = answer["x-firebolt-wake"]
  local refused = decision == "refused" and refusal(answer, body)
  if not decision or refused == nil then
    metadata:set(METADATA, "wake", "unanswered")
    return
  end
  metadata:set(METADATA, "wake", decision)
  if answer["server-timing"] then
    metadata:set(METADATA, "server_timing", answer["server-timing"])
  end
  if decision == "ready" then
    remember(engine, now)
  end
  if refused then
    metadata:set(METADATA, "refused", decision)
    request:respond(refused, body)
  end
end
