// Package kubelet plays as much of Kubernetes as pods of the chart need, with processes of this machine
// in place of containers. It is for tests, on Linux and as root.
//
// A pod gets a root directory of its own with the program that its image stands for, and nothing else but
// its volumes; the process runs there as the user of the pod, with its arguments and its environment
// alone. Probes decide when it has started, whether it is ready, and whether it is killed. It ends as
// Kubernetes ends pods: SIGTERM, and SIGKILL once the grace is over, which is told (see [Ended]). A
// container that ends by itself is started again, later each time.
//
// A Deployment is updated as its strategy says: no pod is ended while the pods that are available would
// be too few. A StatefulSet has one pod, whose volume outlives it. Which pods are ready is told to
// [Options].Endpoints, as late as in a cluster whose proxies need time to notice.
//
// What is different from Kubernetes:
//
//   - Pods share the network of the machine. Each has an address of its own in 127.0.0.0/8: where a
//     variable or an argument names a port of all addresses, as :8080 does, the pod's address stands
//     before it. Probes have localhost as their Host, as no other name is good at a loopback address.
//   - Requests and limits of resources, seccomp, spread, policies of networks, budgets and scalers are
//     not played: those are held to the policy of package chart.
//   - A root that cannot be written is one that belongs to root.
//   - Times between two starts of a container, and between two looks at it, are those of [Options].
//
// One goroutine has the state of a Cluster. Each pod has a goroutine, which tells it what happens. All
// methods may be called by any goroutine.
package kubelet
