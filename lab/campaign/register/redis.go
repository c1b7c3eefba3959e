package register

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// redisWrite sets a value unless a higher token was seen. It compares tokens as text of 20
// digits, because Lua's numbers are not exact.
var redisWrite = redis.NewScript(`
local seen = redis.call('HGET', KEYS[1], 'fence')
if ARGV[3] == 'fenced' and seen and ARGV[1] < seen then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1`)

type redisRegister struct{ client *redis.Client }

func openRedis(url string) (Register, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.MaxRetries = -1 // errors go to the writer
	return redisRegister{redis.NewClient(o)}, nil
}

func (r redisRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	mode := "unfenced"
	if fenced {
		mode = "fenced"
	}
	done, err := redisWrite.Run(ctx, r.client, []string{"register:" + resource}, digits(token), value, mode).Int()
	if err == nil && done == 0 {
		return ErrStale
	}
	return err
}

func (r redisRegister) Close() error { return r.client.Close() }
