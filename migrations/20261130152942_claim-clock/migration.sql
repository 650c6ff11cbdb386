CREATE TABLE "claim_clock" (
	"id" boolean PRIMARY KEY DEFAULT true,
	"ms" bigint NOT NULL,
	CONSTRAINT "claim_clock_one_row" CHECK ("id")
);
--> statement-breakpoint
INSERT INTO "claim_clock" ("ms") VALUES (0);
--> statement-breakpoint
CREATE FUNCTION claim_clock_ms() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT ms FROM claim_clock';
--> statement-breakpoint
DROP INDEX "idempotency_keys_created";--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "counted_ms" bigint DEFAULT claim_clock_ms() NOT NULL;--> statement-breakpoint
CREATE INDEX "idempotency_keys_counted" ON "idempotency_keys" ("counted_ms");