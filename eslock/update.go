package eslock

// ask is what one caller wants of a document: the parameters of an update of its
// own, or of one of several holds there.
type ask struct {
	document
	params any
}

// update is what is sent about a document, for these asks of many.
type update struct {
	ask
	of []int
}

// updates are what is sent for asks. What is asked of the holds of one document is
// one update: each passes over all that the document has, is written to all copies,
// and meanwhile keeps everybody else from it.
func (st *statement) updates(asks []ask) []update {
	updates := make([]update, 0, len(asks))
	if !st.refs {
		for i, a := range asks {
			updates = append(updates, update{a, []int{i}})
		}
		return updates
	}
	of := make(map[string][]int, len(asks))
	var ids []string
	for i, a := range asks {
		if of[a.ID] == nil {
			ids = append(ids, a.ID)
		}
		of[a.ID] = append(of[a.ID], i)
	}
	for _, id := range ids {
		refs := make([]any, len(of[id]))
		for k, i := range of[id] {
			refs[k] = asks[i].params
		}
		d := asks[of[id][0]].document
		updates = append(updates, update{ask{d, refsParams{d, refs}}, of[id]})
	}
	return updates
}

// all is one outcome of all asks.
func (u update) all(o outcome) []outcome {
	all := make([]outcome, len(u.of))
	for i := range all {
		all[i] = o
	}
	return all
}
