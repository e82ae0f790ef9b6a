package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProviders has tokens as the identity providers that people have make them, written by hand from their documents, with the configuration that each needs. Beside each stands
// a token of the same provider that must not count.
func TestProviders(t *testing.T) {
	type who struct {
		subject, client string
		machine         bool
		scopes          string
	}
	const (
		keycloak  = "https://id.example.com/realms/tools"
		entra     = "https://login.microsoftonline.com/9122040d-6c67-4c5b-b112-36a304b66dad/v2.0"
		entraOne  = "https://sts.windows.net/9122040d-6c67-4c5b-b112-36a304b66dad/"
		auth0     = "https://tenant.eu.auth0.com/"
		okta      = "https://dev-1.okta.com/oauth2/default"
		oktaOwn   = "https://dev-1.okta.com/oauth2/aus9o8wzkhckw9TLa357"
		oktaOrg   = "https://dev-1.okta.com"
		cognito   = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEfGhI"
		authentik = "https://authentik.example.com/application/o/mcp/"
		api       = "api://b14a7505-96e9-4927-91e8-0601d0fc9caa"
		app       = "6731de76-14a6-49ae-97bc-6eba6914391e"
	)
	for name, tt := range map[string]struct {
		issuer Issuer
		header members
		claims members
		want   string
		who    who
	}{
		"Keycloak, a user": {
			Issuer{URL: keycloak}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{
				"jti": "onrtac:4d", "iss": keycloak, "aud": []string{server, "account"}, "sub": "f:8a", "typ": "Bearer", "azp": "editor", "sid": "s", "acr": "1", "allowed-origins": []string{"*"},
				"realm_access": members{"roles": []string{"user"}}, "resource_access": members{"account": members{"roles": []string{"view-profile"}}}, "scope": "openid files:read email", "email_verified": false, "preferred_username": "alice",
			}, "200", who{"f:8a", "editor", false, "openid files:read email"},
		},
		"Keycloak, a service account, which has a subject of its own": {
			Issuer{URL: keycloak}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": keycloak, "aud": server, "sub": "73c2", "typ": "Bearer", "azp": "ci", "client_id": "ci", "clientHost": "192.0.2.1", "clientAddress": "192.0.2.1", "scope": "files:read", "preferred_username": "service-account-ci"},
			"200", who{"73c2", "ci", false, "files:read"},
		},
		"Keycloak, a service account of a lightweight token": {
			Issuer{URL: keycloak}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": keycloak, "aud": server, "typ": "Bearer", "azp": "ci", "scope": "files:read"}, "200", who{"ci", "ci", true, "files:read"},
		},
		"Keycloak without an audience mapper": {
			Issuer{URL: keycloak}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": keycloak, "aud": "account", "sub": "f:8a", "typ": "Bearer", "azp": "editor", "scope": "openid"}, "401 audience", who{},
		},
		"Keycloak, an ID token": {
			Issuer{URL: keycloak, ClientIDs: []string{"editor"}}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": keycloak, "aud": "editor", "sub": "f:8a", "typ": "ID", "azp": "editor", "scope": "openid"}, "401 id_token", who{},
		},
		"Entra, version 2": {
			Issuer{URL: entra, Audiences: []string{"b14a7505-96e9-4927-91e8-0601d0fc9caa", api}}, members{"typ": "JWT", "alg": "RS256", "kid": "rsa"},
			members{
				"aud": "b14a7505-96e9-4927-91e8-0601d0fc9caa", "iss": entra, "aio": "A", "azp": app, "azpacr": "0", "name": "Alice", "oid": "690222be", "preferred_username": "a@example.com", "rh": "I", "scp": "Files.Read Files.Write",
				"sub": "HKZpfaHy", "tid": "9122040d", "uti": "f", "ver": "2.0",
			}, "200", who{"HKZpfaHy", app, false, "Files.Read Files.Write"},
		},
		"Entra, version 1": {
			Issuer{URL: entraOne, Audiences: []string{api}}, members{"typ": "JWT", "alg": "RS256", "kid": "rsa", "x5t": "nOo3"},
			members{"aud": api, "iss": entraOne, "appid": app, "appidacr": "0", "oid": "690222be", "scp": "Files.Read", "sub": "HKZpfaHy", "tid": "9122040d", "ver": "1.0"}, "200", who{"HKZpfaHy", app, false, "Files.Read"},
		},
		"Entra, an app": {
			Issuer{URL: entra, Audiences: []string{api}}, members{"typ": "JWT", "alg": "RS256", "kid": "rsa"},
			members{"aud": api, "iss": entra, "azp": app, "azpacr": "1", "idtyp": "app", "oid": "690222be", "roles": []string{"Files.Read.All"}, "sub": "690222be", "ver": "2.0"}, "200", who{"690222be", app, false, ""},
		},
		"Entra, a token for Graph": {
			Issuer{URL: entra, Audiences: []string{api}}, members{"typ": "JWT", "alg": "RS256", "kid": "rsa"},
			members{"aud": "00000003-0000-0000-c000-000000000000", "iss": entra, "azp": app, "scp": "User.Read", "sub": "x"}, "401 audience", who{},
		},
		"Auth0, a user": {
			Issuer{URL: auth0}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": auth0, "sub": "auth0|5c5d", "aud": []string{server, "https://tenant.eu.auth0.com/userinfo"}, "azp": "my_client_id", "scope": "openid profile files:read"}, "200", who{"auth0|5c5d", "my_client_id", false, "openid profile files:read"},
		},
		"Auth0, RFC 9068": {
			Issuer{URL: auth0}, members{"alg": "RS256", "typ": "at+jwt", "kid": "rsa"},
			members{"iss": auth0, "sub": "auth0|5c5d", "aud": server, "client_id": "my_client_id", "jti": "1", "scope": "files:read", "permissions": []string{"files:read"}}, "200", who{"auth0|5c5d", "my_client_id", false, "files:read"},
		},
		"Auth0, a machine, which has a subject of its own": {
			Issuer{URL: auth0}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": auth0, "sub": "abc@clients", "aud": server, "azp": "abc", "gty": "client-credentials", "scope": "files:read"}, "200", who{"abc@clients", "abc", false, "files:read"},
		},
		"Auth0 without a slash in the configuration": {
			Issuer{URL: strings.TrimSuffix(auth0, "/")}, members{"alg": "RS256", "typ": "JWT", "kid": "rsa"},
			members{"iss": auth0, "sub": "auth0|5c5d", "aud": server, "azp": "my_client_id"}, "401 issuer", who{},
		},
		"Okta, a user of the default server": {
			Issuer{URL: okta, Audiences: []string{"api://default"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"ver": 1, "jti": "AT.0m", "iss": okta, "aud": "api://default", "cid": "nmdP1fcyvdVO11AL7ECm", "uid": "00ujmkLgagxeRrAg20g3", "scp": []string{"openid", "files:read"}, "auth_time": 1, "sub": "alice@example.com"},
			"200", who{"alice@example.com", "nmdP1fcyvdVO11AL7ECm", false, "openid files:read"},
		},
		"Okta, a server of its own for this one": {
			Issuer{URL: oktaOwn}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"ver": 1, "iss": oktaOwn, "aud": server, "cid": "nmdP1fcyvdVO11AL7ECm", "uid": "00ujmkLgagxeRrAg20g3", "scp": []string{"files:read"}, "sub": "alice@example.com"},
			"200", who{"alice@example.com", "nmdP1fcyvdVO11AL7ECm", false, "files:read"},
		},
		"Okta, a machine": {
			Issuer{URL: okta, Audiences: []string{"api://default"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"ver": 1, "iss": okta, "aud": "api://default", "cid": "0oa1", "scp": []string{"files:read"}, "sub": "0oa1"}, "200", who{"0oa1", "0oa1", true, "files:read"},
		},
		"Okta, by its client": {
			Issuer{URL: okta, AudienceClaim: "cid", Audiences: []string{"0oa1"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"iss": okta, "aud": "api://default", "cid": "0oa1", "scp": []string{"files:read"}, "sub": "alice@example.com"}, "200", who{"alice@example.com", "0oa1", false, "files:read"},
		},
		"Okta, the server of the organisation": {
			Issuer{URL: oktaOrg, Audiences: []string{"api://default"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"iss": oktaOrg, "aud": oktaOrg, "cid": "0oa1", "scp": []string{"openid"}, "sub": "alice@example.com"}, "401 audience", who{},
		},
		"Cognito, a user": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "cognito:groups": []string{"g"}, "iss": cognito, "version": 2, "client_id": "xxxxexample", "origin_jti": "o", "event_id": "e", "token_use": "access", "scope": "mcp/files.read", "auth_time": 1, "jti": "j", "username": "alice"},
			"200", who{"aaaa-bbbb", "xxxxexample", false, "mcp/files.read"},
		},
		"Cognito, a machine": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "xxxxexample", "iss": cognito, "version": 2, "client_id": "xxxxexample", "token_use": "access", "scope": "mcp/files.read"}, "200", who{"xxxxexample", "xxxxexample", true, "mcp/files.read"},
		},
		"Cognito, of another client": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "client_id": "other", "token_use": "access", "scope": "mcp/files.read"}, "401 audience", who{},
		},
		"Cognito, a user whose client has asked for this server": {
			Issuer{URL: cognito}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "aud": server, "version": 2, "client_id": "xxxxexample", "token_use": "access", "scope": server + "/files.read", "username": "alice"},
			"200", who{"aaaa-bbbb", "xxxxexample", false, server + "/files.read"},
		},
		"Cognito, an ID token": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "aud": "xxxxexample", "token_use": "id", "email": "a@example.com", "scope": "x", "client_id": "xxxxexample"}, "401 id_token", who{},
		},
		"a token without a scope, where clients stand for the audience": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "client_id": "xxxxexample"}, "401 scope_claim", who{},
		},
		"a token with an empty scope, where clients stand for the audience": {
			Issuer{URL: cognito, ClientIDs: []string{"xxxxexample"}}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "client_id": "xxxxexample", "scope": ""}, "401 scope_claim", who{},
		},
		"Cognito without client ids in the configuration": {
			Issuer{URL: cognito}, members{"kid": "rsa", "alg": "RS256", "typ": nil},
			members{"sub": "aaaa-bbbb", "iss": cognito, "client_id": "xxxxexample", "scope": "mcp/files.read"}, "401 audience", who{},
		},
		"Authentik": {
			Issuer{URL: authentik, Audiences: []string{"CPEPMv"}}, members{"alg": "RS256", "kid": "rsa", "typ": "JWT"},
			members{"iss": authentik, "sub": "f0fd", "aud": "CPEPMv", "azp": "CPEPMv", "uid": "u", "auth_time": 1, "acr": "goauthentik.io/providers/oauth2/default", "scope": "openid files:read", "email": "a@example.com", "groups": []string{"g"}},
			"200", who{"f0fd", "CPEPMv", false, "openid files:read"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStub()
				tt.issuer.Keys = keysURL
				s.set(keysURL, page{body: keySetOf("rsa")})
				a := newAuthority(t, s, func(c *Config) { c.Issuers = []Issuer{tt.issuer} })
				plain := members{"aud": nil, "sub": nil, "client_id": nil, "scope": nil}
				for name, v := range tt.claims {
					plain[name] = v
				}
				v := expect(t, a, token("rsa", tt.header, plain), tt.want)
				if v == nil {
					return
				}
				if diff := cmp.Diff(who{v.Subject, v.Client, v.Machine, strings.Join(v.Scopes, " ")}, tt.who, cmp.AllowUnexported(who{})); diff != "" || v.Issuer != tt.issuer.URL {
					t.Error(v.Issuer, diff)
				}
			})
		})
	}
}

// TestIdentity says who a token is of: a machine is nobody else.
func TestIdentity(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAuthority(t, newStub("a"), func(c *Config) { c.Claims = []string{"email", "groups", "x"} })
		who := func(claims members) [3]any {
			v := expect(t, a, token("a", nil, claims), "200")
			return [3]any{v.Subject, v.Client, v.Machine}
		}
		for _, tt := range []struct {
			claims members
			want   [3]any
		}{
			{members{"sub": "alice", "client_id": "editor"}, [3]any{"alice", "editor", false}},
			{members{"sub": "alice", "client_id": nil}, [3]any{"alice", "", false}},
			{members{"sub": nil, "client_id": "alice"}, [3]any{"alice", "alice", true}},
			{members{"sub": "alice", "client_id": "alice"}, [3]any{"alice", "alice", true}},
			{members{"sub": "alice", "client_id": "editor", "azp": "alice"}, [3]any{"alice", "editor", true}},
			{members{"sub": "alice", "client_id": "", "azp": "editor"}, [3]any{"alice", "editor", false}},
			{members{"sub": nil, "client_id": nil, "cid": "alice"}, [3]any{"alice", "alice", true}},
		} {
			if got := who(tt.claims); got != tt.want {
				t.Errorf("%v: %v, want %v", tt.claims, got, tt.want)
			}
		}
		v := expect(t, a, token("a", nil, members{"email": "a@example.com", "groups": []string{"g"}, "secret": "hidden"}), "200")
		if string(v.Claims) != `{"email":"a@example.com","groups":["g"]}` {
			t.Errorf("claims are %s", v.Claims)
		}
		if v = expect(t, a, token("a", nil, nil), "200"); v.Claims != nil || v.Audience[0] != server || v.Issued.IsZero() {
			t.Errorf("got %+v", v.Identity)
		}
	})
}

// TestSeveralIssuers has keys of one and audiences of another: nothing crosses.
func TestSeveralIssuers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const second = "https://two.example.com"
		s := newStub("a")
		s.set(second+"/.well-known/oauth-authorization-server", page{body: encoded(members{"issuer": second, "jwks_uri": second + "/keys"})})
		s.set(second+"/keys", page{body: keySetOf("b")})
		a := newAuthority(t, s, func(c *Config) {
			c.Issuers = append(c.Issuers, Issuer{URL: second, Audiences: []string{"api://two", "HTTPS://Two.example.com:443/api/"}})
		})
		expect(t, a, token("a", nil, nil), "200")
		expect(t, a, token("b", nil, members{"iss": second, "aud": "api://two"}), "200")
		expect(t, a, token("b", nil, members{"iss": second, "aud": "https://two.example.com/api"}), "200")
		expect(t, a, token("b", nil, members{"iss": second}), "401 audience")
		expect(t, a, token("a", nil, members{"aud": "api://two"}), "401 audience")
		expect(t, a, token("b", nil, nil), "401 key")
		expect(t, a, token("a", nil, members{"iss": second, "aud": "api://two"}), "401 key")
		expect(t, a, token("a", members{"kid": "b"}, members{"iss": second, "aud": "api://two"}), "401 signature")
	})
}
