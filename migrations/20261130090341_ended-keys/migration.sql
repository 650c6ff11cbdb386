ALTER TABLE "api_keys" ADD COLUMN "ended_at" timestamp(3) with time zone;--> statement-breakpoint
DROP TRIGGER api_keys_announced ON "api_keys";
--> statement-breakpoint
CREATE TRIGGER api_keys_announced AFTER INSERT OR DELETE OR UPDATE OF "public_id", "secret_hash", "member_id", "name", "scopes", "member_ids", "made_by_admin", "expires_at", "ended_at", "revoked_at" ON "api_keys" FOR EACH STATEMENT EXECUTE FUNCTION announce_accounts();
