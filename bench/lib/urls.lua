-- wrk -s urls.lua URL -- below COUNT FOLDER...: requests FOLDER/0 to FOLDER/COUNT-1 in turn.
-- wrk -s urls.lua URL -- from FIRST FOLDER...: requests FOLDER/FIRST, FOLDER/FIRST+1, without end.
-- With several folders, each number is requested in another one, in turn.
local requests, turn = {}, 0
local heads, tail, number = {}, "", nil

function init(args)
  local folders = #args - 2
  for i = 0, folders - 1 do
    local text = wrk.format("GET", args[3 + i] .. "/@")
    local at = text:find("@", 1, true)
    heads[i], tail = text:sub(1, at - 1), text:sub(at + 1)
  end
  if args[1] == "from" then
    number = tonumber(args[2])
    return
  end
  for i = 0, tonumber(args[2]) - 1 do
    requests[i] = heads[i % folders] .. i .. tail
  end
end

function request()
  if number then
    number = number + 1
    return heads[number % (#heads + 1)] .. string.format("%.0f", number) .. tail
  end
  turn = (turn + 1) % (#requests + 1)
  return requests[turn]
end
