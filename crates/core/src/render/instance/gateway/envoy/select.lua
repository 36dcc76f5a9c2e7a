-- Selects the engine of a request and sets its authority, then wakes the engine if it is stopped.
--
-- The engine is named by the header X-Firebolt-Engine, by the query parameter `engine`, or by both if they agree. Only
-- the parameter is taken out of the query string; what is around it stays as it is, byte for byte.
--
-- If this script fails, Envoy forwards the request without an engine. Therefore, no value is used before it is checked,
-- and the route rejects requests that this script has not marked.

local HEADER = "x-firebolt-engine"
local PARAMETER = "engine"

local REFUSALS = {
  engine_missing = "The request names no engine. Send the header X-Firebolt-Engine or the query parameter engine.",
  engine_repeated = "The request names its engine more than once. Send one X-Firebolt-Engine header or one engine parameter.",
  engine_conflict = "The header X-Firebolt-Engine and the query parameter engine name different engines. Send one of them, or the same name in both.",
  engine_malformed = "The name of the engine is not valid. Use 1 to %d lower-case letters, digits and hyphens, beginning and ending with a letter or digit.",
  path_malformed = "The request has no path. Send it with a path that begins with a slash.",
}

-- The text behind percent-encoding, or nil if an escape is broken.
local function decoded(text)
  text = string.gsub(text, "+", " ")
  local rest = string.gsub(text, "%%%x%x", "")
  if string.find(rest, "%", 1, true) then
    return nil
  end
  local plain = string.gsub(text, "%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end)
  return plain
end

local function is_name(text, longest)
  return #text <= longest
    and string.find(text, "^[a-z0-9][a-z0-9-]*$") ~= nil
    and string.sub(text, -1) ~= "-"
end

-- Takes the parameter out of a query string. Returns the rest and the value of the parameter, or a reason to refuse.
local function taken_out(query)
  local kept = {}
  local value = nil
  local from = 1
  while from do
    local ampersand = string.find(query, "&", from, true)
    local part = string.sub(query, from, ampersand and ampersand - 1 or -1)
    local equals = string.find(part, "=", 1, true)
    local key = equals and string.sub(part, 1, equals - 1) or part
    if decoded(key) == PARAMETER then
      if value then
        return nil, nil, "engine_repeated"
      end
      value = decoded(equals and string.sub(part, equals + 1) or "")
      if not value then
        return nil, nil, "engine_malformed"
      end
    else
      kept[#kept + 1] = part
    end
    from = ampersand and ampersand + 1
  end
  return table.concat(kept, "&"), value, nil
end

-- Returns the engine and the path to ask it for, or a reason to refuse.
local function selected(headers, longest)
  local path = headers:get(":path")
  if not path or string.sub(path, 1, 1) ~= "/" then
    return nil, nil, "path_malformed"
  end
  local by_parameter = nil
  local mark = string.find(path, "?", 1, true)
  if mark then
    local rest, value, reason = taken_out(string.sub(path, mark + 1))
    if reason then
      return nil, nil, reason
    end
    if value then
      by_parameter = value
      path = string.sub(path, 1, mark - 1)
      if rest ~= "" then
        path = path .. "?" .. rest
      end
    end
  end
  if headers:getNumValues(HEADER) > 1 then
    return nil, nil, "engine_repeated"
  end
  local by_header = headers:get(HEADER)
  if by_header and not is_name(by_header, longest) then
    return nil, nil, "engine_malformed"
  end
  if by_header and by_parameter and by_header ~= by_parameter then
    return nil, nil, "engine_conflict"
  end
  local engine = by_header or by_parameter
  if not engine then
    return nil, nil, "engine_missing"
  end
  if not is_name(engine, longest) then
    return nil, nil, "engine_malformed"
  end
  return engine, path, nil
end

function envoy_on_request(request)
  local headers = request:headers()
  local metadata = request:streamInfo():dynamicMetadata()
  local context = request:filterContext()
  local longest = context:get("longest_name")
  local engine, path, reason = selected(headers, longest)
  if reason then
    metadata:set(METADATA, "refused", reason)
    request:respond(
      { [":status"] = "400", ["content-type"] = "application/json" },
      string.format('{"error":{"code":"' .. reason .. '","message":"' .. REFUSALS[reason] .. '"}}\n', longest)
    )
    return
  end
  headers:replace(HEADER, engine)
  headers:replace(":path", path)
  headers:replace(":authority", engine .. context:get("authority_suffix"))
  metadata:set(METADATA, "engine", engine)
  request:clearRouteCache()
  wake(request, headers, engine)
end
