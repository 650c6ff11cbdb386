CREATE TABLE "grants" (
	"token_hash" bytea PRIMARY KEY,
	"member_id" uuid NOT NULL,
	"binding" bytea NOT NULL,
	"expires_at" timestamp(3) with time zone NOT NULL,
	"used_at" timestamp(3) with time zone
);
--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "place" text;--> statement-breakpoint
CREATE INDEX "grants_expiry" ON "grants" ("expires_at");--> statement-breakpoint
ALTER TABLE "grants" ADD CONSTRAINT "grants_member_id_members_id_fkey" FOREIGN KEY ("member_id") REFERENCES "members"("id");