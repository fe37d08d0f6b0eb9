-- wrk -s urls.lua URL -- FOLDER COUNT: requests FOLDER/0 to FOLDER/COUNT-1 in turn.
local requests, turn = {}, 0

function init(args)
  for i = 0, tonumber(args[2]) - 1 do
    requests[i] = wrk.format("GET", args[1] .. "/" .. i)
  end
end

function request()
  turn = (turn + 1) % (#requests + 1)
  return requests[turn]
end
