package community

import "github.com/tasktable/tasktable/handlers"

// Variants is a handler for each variant of the contract, as arguments of handlers.NewRegistry. Who sends the e-mails
// is the caller's choice: email.Variant by SMTP, or Outbox. The others work in the transaction that completes their
// task, so what they do happens exactly once.
func Variants(app *App, mail handlers.Part) []handlers.Part {
	return []handlers.Part{
		handlers.HandleTx(app.publishEvent),
		handlers.HandleTx(app.publishPost),
		handlers.HandleTx(app.sendReminder),
		handlers.HandleTx(app.sendMessage),
		handlers.HandleTx(app.welcome),
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
