package community

import "github.com/tasktable/tasktable/handlers"

// Variants returns a handler for each variant of the contract, as arguments of handlers.NewRegistry. The caller
// chooses the handler of e-mails: email.Variant sends them by SMTP, and Outbox stores them. The other handlers work
// in the transaction that completes their task, so their changes happen exactly once.
func Variants(app *App, mail handlers.Part) []handlers.Part {
	return []handlers.Part{
		handlers.HandleTx(app.publishEvent),
		handlers.HandleTx(app.publishPost),
		handlers.HandleTx(app.sendReminder),
		handlers.HandleTx(app.sendMessage),
		handlers.HandleTx(app.welcome),
		handlers.HandleTx(logActivity),
		handlers.HandleTx(updateStatus),
		handlers.HandleTx(refreshGeoSummary),
		handlers.HandleTx(cleanUpTokens),
		handlers.HandleTx(suspendAccounts),
		handlers.HandleTx(app.purge),
		handlers.HandleTx(app.purgeAccounts),
		handlers.HandleTx(cleanUpMoments),
		handlers.HandleTx(purgeMoments),
		handlers.HandleTx(expireMessages),
		mail,
	}
}
