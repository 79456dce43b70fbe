package scheduled

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// ErrPooler means that the session connection goes through a pooler that shares server connections. Advisory locks
// would then belong to nobody. Run and CheckDirect return it. Let Config.Connect give a direct connection. For the
// command, set TASKTABLE_SESSION_DATABASE_URL.
var ErrPooler = session.ErrPooler

// CheckDirect returns ErrPooler if the connection goes through a pooler. Run makes the same check for its session.
func CheckDirect(ctx context.Context, conn *pgx.Conn) error { return session.CheckDirect(ctx, conn) }
