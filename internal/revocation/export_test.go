package revocation

// Encoded returns a revocation as it is stored, and its id.
func Encoded(r Revocation) (id string, data []byte, err error) {
	r.ID = r.deriveID()
	data, err = recordOf(r, nil).encode()
	return r.ID, data, err
}
